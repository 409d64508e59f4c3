"""`durable`, the command line of a developer's machine.

    durable new DIR    lays out a project

The commands need the extra `dev`. An app in Azure doesn't have it, and never imports this package.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line. Ends the process with its exit code."""
    try:
        from engine.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        raise SystemExit("durable needs the extra `dev`: pip install 'durable-workflows[dev]'") from None
    app()
