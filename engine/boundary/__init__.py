"""The boundary: how the outside comes in. The client, HTTP, health, the runtime of an app, the Functions triggers.

It stands on all storeys below. It translates requests and answers; rules of an execution belong below it.
"""
