"""A local host for an Azure Functions app in Python: it runs a `function_app.py` without Azure.

    python -m devhost

It serves HTTP triggers, fires timer triggers and reads the change feed for a Cosmos DB trigger, with the
platform's own rules for each: what a failed batch costs, who may call a route, when a timer fires.
`host.py` puts the parts together:

    settings   local.settings.json, host.json, %SETTING% references
    loader     imports the app and checks its functions as the platform's worker does
    invoke     calls one function
    http       HTTP triggers          timers  timer triggers          feed  the Cosmos DB trigger

What the platform does and this host doesn't: other triggers and bindings, scaling, one timer for all
instances (each host runs its own), the 230 seconds within which HTTP has to answer, and the restart of a
worker whose function ran out of time (here only that invocation ends).
"""
