"""What the platform does with an app and this host doesn't. The host says so when it starts."""

from __future__ import annotations

from collections.abc import Iterator

from devhost.functions import App, FeedTrigger, TimerTrigger
from devhost.settings import HostSettings

ALWAYS = (
    "scaling: this is one instance, and a second host on the same data runs its own timers",
    "keys: one key stands for all function, host and admin keys",
    "sign-in: no token is checked; with --user, every caller with the key is that user",
    "telemetry: nothing goes to Application Insights; a function's context has no trace",
    "timers: a run that was missed while no host ran isn't made up for",
    "functionTimeout: here it cancels the invocation; in Azure it ends the worker process, with all that runs in it",
    "limits: a request may take as long as its function, and memory is this machine's",
)


def left_out(app: App, settings: HostSettings) -> list[str]:
    """What this host leaves out, a line for each: first what this app asks for, then what no app gets here."""
    return [*app.left_out, *_policies(app), *_settings(settings), *ALWAYS]


def _policies(app: App) -> Iterator[str]:
    """Retry policies without an effect. The platform ignores them too: only timers and the feed have them
    (https://learn.microsoft.com/azure/azure-functions/functions-bindings-error-pages)."""
    for function in app.functions:
        if function.retry is not None and not isinstance(function.trigger, TimerTrigger | FeedTrigger):
            yield f"the retry policy of {function.name}: it has no effect on its {function.binding}, in Azure either"


def _settings(settings: HostSettings) -> Iterator[str]:
    if settings.left_out:
        yield f"in host.json: {', '.join(settings.left_out)}"
