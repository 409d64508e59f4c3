"""The store in Cosmos DB: requests, retries, sessions, the change feed, and the containers' definition.

It keeps the promises of `engine/store/base.py`. Only this folder imports the Cosmos SDK, and only `resend.py` looks at
status codes. See docs/cosmos.md.
"""
