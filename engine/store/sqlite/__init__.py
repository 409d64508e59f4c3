"""The embedded store: SQLite, in one file or in memory, for one machine and for tests.

It keeps the promises of `engine/store/base.py`. Only this folder imports sqlite3.
"""
