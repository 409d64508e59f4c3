"""The boundary between the engine and its callers: the client, HTTP, health, an app's runtime, the Functions triggers.

This package may import all storeys below. It translates requests and answers. The rules of an execution belong below.
"""
