"""The whole engine on one seeded scheduler with virtual time.

`python -m tests.verification.simulation SEED` replays a seed.
"""
