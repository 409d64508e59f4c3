"""The deterministic core: what authors declare, the event loop, and the run of a workflow's code.

It stands on `ground` and `values`. It must not do I/O, read a clock, use randomness that isn't seeded, or know a store:
the same events give the same run, in every process.
"""
