"""The ground: what every storey may use. Clock, errors, names, settings, tokens.

It stands on nothing but the standard library and pydantic. It must not know a workflow, a document or a store. Only
`SystemClock` reads the machine's clock.
"""
