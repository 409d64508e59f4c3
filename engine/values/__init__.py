"""Values: how payloads, results and failures become JSON text and come back, and what events and outcomes are.

This package imports `ground`. It must not do I/O, read a clock, use randomness, or know where its text is stored.
"""
