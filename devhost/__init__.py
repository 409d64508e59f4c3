"""A local host for an Azure Functions app in Python: it runs a `function_app.py` without Azure.

    python -m devhost

It serves HTTP triggers, fires timer triggers, and reads the change feed for a Cosmos DB trigger. The platform's rules
apply to each: what a failed batch costs, who may call a route, when a timer fires. `host.py` puts the parts together:

    settings   local.settings.json, host.json, %SETTING% references
    loader     imports the app and checks its functions as the platform's worker does
    invoke     calls one function
    http       HTTP triggers          timers  timer triggers          feed  the Cosmos DB trigger

This host differs from the platform in these points:
1. It has no other triggers or bindings, and doesn't scale.
2. Each host runs its own timers. The platform has one timer for all instances.
3. An HTTP function may take longer than 230 seconds.
4. When a function runs out of time, only that invocation ends. The platform restarts the worker.
"""
