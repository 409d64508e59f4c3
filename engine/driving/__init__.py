"""Driving: how a process works on executions. The worker claims them. A drive runs the core and records events.
Activities and children run beside the drive.

This package imports `core` and `store`, and brings them together. It must not know its callers: no HTTP, no triggers,
no client.
"""
