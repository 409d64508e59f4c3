"""Driving: a process at work on executions. The worker claims, a drive runs the core and records, activities and
children run beside it.

It stands on `core` and `store`, and brings them together. It must not know who calls it: no HTTP, no triggers, no
client.
"""
