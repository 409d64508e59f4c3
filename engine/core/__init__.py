"""The deterministic core: what authors declare, the event loop, and the run of a workflow's code.

This package imports `ground` and `values`. It must not do I/O, read a clock, use unseeded randomness, or know a store.
So the same events give the same run in every process.
"""
