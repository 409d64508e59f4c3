"""The engine's settings, read from the environment once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

from engine.ground.tokens import parse_keys

MIN_RETENTION = timedelta(minutes=1)
"""A start whose answer was lost may be sent again for nearly this long (`store/cosmos/resend.py`). The repeated start
must find the execution, or the workflow would run a second time."""


@dataclass(frozen=True)
class Settings:
    """The numbers by which the engine drives. Tests may shorten every duration."""

    lease: timedelta = timedelta(seconds=30)
    """How long a claim holds without a heartbeat. A heartbeat comes after each third of it."""
    skew: timedelta = timedelta(seconds=5)
    """How far the clocks of two machines may be apart."""
    hold: timedelta = timedelta(seconds=2)
    """A drive waits in memory for a timer or retry that is due sooner than this. A later one suspends the execution."""
    timers_ahead: timedelta = timedelta(seconds=12)
    """A process keeps a timer in memory if it is due sooner than this. The driver that suspends an execution does so,
    and the sweep does. It is the time between two sweeps, plus a little for a late sweep."""
    sweep_waits: timedelta = timedelta(seconds=9)
    """How long a sweep waits for timers: until shortly before the next sweep."""
    sweep_new_after: timedelta = timedelta(seconds=5)
    """How long after its start the sweep looks at a new execution that nobody has claimed."""
    retention: timedelta = timedelta(days=30)
    """How long a finished execution is kept, unless its workflow says otherwise. Zero: for ever."""
    max_claims: int = 5
    """Claims in a row without progress after which an execution is quarantined."""
    warn_at_events: int = 5_000
    """After so many events of a run, a warning names its execution."""
    max_events: int = 50_000
    """After so many events of a run, its execution is suspended, unless it is interrupted."""
    max_drives: int = 64
    """How many executions compute at a time in one process. Executions that only wait for an activity don't count."""
    max_held: int = 2_000
    """How many executions one process holds at a time, including those that only wait."""
    batch_budget: timedelta = timedelta(seconds=1)
    """How long the executions of one batch are driven before they are handed over."""
    let_go_within: timedelta = timedelta(seconds=1)
    """After its budget is spent, how long a batch waits for its drives to let go."""
    sweep_budget: timedelta = timedelta(seconds=20)
    """How long a sweep keeps asking for more due executions."""
    invocation_budget: timedelta = timedelta(minutes=9)
    """How long one invocation drives one execution. The host's functionTimeout must be longer."""
    page: int = 100
    """How many executions the sweep asks for at a time."""
    activity_threads: int = 64
    """How many sync activities run at a time in one process. One activity has half of these threads at most."""
    blocked_after: timedelta = timedelta(0)
    """How long the event loop may stand still before a warning names the code that blocks it. Zero: no warning."""
    blocked_exit: timedelta = timedelta(0)
    """How long the event loop may stand still before the process exits. Zero: for ever."""
    signing_keys: tuple[str, ...] = field(default=(), repr=False)
    """Keys for tokens that leave through HTTP. The first key signs, and all verify."""
    sign_in: bool = False
    """Whether the platform signs callers in and names them in each request."""
    public_url: str = ""
    """The address of the API as callers reach it, without a slash at its end. Empty: that of each request."""
    trust_forwarded: bool = False
    """Whether `X-Forwarded-` headers tell the address that callers asked for."""

    @property
    def heartbeat(self) -> timedelta:
        """The time between two heartbeats."""
        return self.lease / 3

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """The defaults, but for `ENGINE_LEASE_SECONDS`, `ENGINE_SKEW_SECONDS`, `ENGINE_RETENTION_DAYS`,
        `ENGINE_MAX_CLAIMS`, `ENGINE_MAX_DRIVES`, `ENGINE_MAX_HELD`, `ENGINE_MAX_EVENTS`, `ENGINE_SIGNING_KEY`,
        `ENGINE_SIGN_IN` (`entra`, or empty), `ENGINE_PUBLIC_URL`, `ENGINE_TRUST_FORWARDED` (`true`, `false` or empty)
        and `ENGINE_BLOCKED_SECONDS` (a third of the lease, at least one). Raises ValueError that names the setting."""

        def number(name: str, default: float, least: float, most: float = 1_000_000_000) -> float:
            text = environment.get(name, "").strip()
            try:
                value = float(text) if text else default
            except ValueError:
                value = -1
            if not least <= value <= most:
                raise ValueError(f"setting {name} must be a number from {least:g} to {most:g}, not {text!r}")
            return value

        retention = timedelta(days=number("ENGINE_RETENTION_DAYS", cls.retention.days, 0, 36_500))
        if retention and retention < MIN_RETENTION:
            raise ValueError("setting ENGINE_RETENTION_DAYS must be at least one minute, in days, or 0 for ever")
        lease = number("ENGINE_LEASE_SECONDS", cls.lease.total_seconds(), 1)
        return cls(
            lease=timedelta(seconds=lease),
            skew=timedelta(seconds=number("ENGINE_SKEW_SECONDS", cls.skew.total_seconds(), 0)),
            retention=retention,
            max_claims=int(number("ENGINE_MAX_CLAIMS", cls.max_claims, 1)),
            max_events=int(number("ENGINE_MAX_EVENTS", cls.max_events, 100)),
            max_drives=int(number("ENGINE_MAX_DRIVES", cls.max_drives, 1)),
            max_held=int(number("ENGINE_MAX_HELD", cls.max_held, 1)),
            blocked_after=timedelta(seconds=number("ENGINE_BLOCKED_SECONDS", max(1.0, lease / 3), 0)),
            blocked_exit=timedelta(seconds=number("ENGINE_BLOCKED_EXIT_SECONDS", 300, 0)),
            signing_keys=parse_keys(environment.get("ENGINE_SIGNING_KEY", "")),
            sign_in=_signs_in(environment),
            public_url=_public_url(environment),
            trust_forwarded=_trusts_forwarded(environment),
        )


def _signs_in(environment: Mapping[str, str]) -> bool:
    text = environment.get("ENGINE_SIGN_IN", "").strip()
    if text not in ("", "entra"):
        raise ValueError(f"setting ENGINE_SIGN_IN must be entra or empty, not {text!r}")
    if text and environment.get("WEBSITE_AUTH_ENABLED", "").lower() == "false":
        raise ValueError(
            "setting ENGINE_SIGN_IN is entra, but the platform signs nobody in (WEBSITE_AUTH_ENABLED is False): "
            "anybody could name a caller. Switch on the app's authentication, or take the setting away"
        )
    return text == "entra"


def _public_url(environment: Mapping[str, str]) -> str:
    text = environment.get("ENGINE_PUBLIC_URL", "").strip().rstrip("/")
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_address = False
    if text and (not is_address or parts.query or parts.fragment or "@" in parts.netloc or " " in text):
        raise ValueError(
            "setting ENGINE_PUBLIC_URL is the address that the API's routes begin with, such as "
            f"https://orders.example.com/api, not {text!r}"
        )
    return text


def _trusts_forwarded(environment: Mapping[str, str]) -> bool:
    text = environment.get("ENGINE_TRUST_FORWARDED", "").strip().lower()
    if text not in ("", "true", "false"):
        raise ValueError(f"setting ENGINE_TRUST_FORWARDED must be true, false or empty, not {text!r}")
    return text == "true"
