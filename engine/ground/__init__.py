"""The ground: modules that every storey may use. Clock, errors, names, settings, tokens.

This package imports only the standard library and third-party packages. It must not know a workflow, a document or a
store. Only `SystemClock` reads the machine's clock.
"""
