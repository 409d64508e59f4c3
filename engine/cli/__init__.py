"""`durable`, the command line for authors and operators of workflows. `durable --help` lists the commands.

The commands need the extra `cli`, which `dev` contains. An app in Azure has neither extra, and never imports this
package.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line, and end the process with the command's exit code: 0 for success, 1 for a problem, 2 for
    wrong usage."""
    try:
        from engine.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        raise SystemExit("durable needs the extra `cli`: pip install 'durable-workflows[cli]'") from None
    app(prog_name="durable")
