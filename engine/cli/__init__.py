"""`durable`, the command line of those who write and those who run workflows. `durable --help` lists the commands.

The commands need the extra `cli`, which `dev` contains. An app in Azure has neither, and never
imports this package.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line. Ends the process with its exit code: 0 all is well, 1 a problem, 2 wrong usage."""
    try:
        from engine.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        raise SystemExit("durable needs the extra `cli`: pip install 'durable-workflows[cli]'") from None
    app(prog_name="durable")
