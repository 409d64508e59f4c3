"""Values: how a payload, a result or a failure becomes JSON text and comes back, and what events and outcomes are.

It stands on `ground`. It must not do I/O, read a clock, use randomness, or know where its text is stored.
"""
