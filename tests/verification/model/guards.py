"""What the protocol rests on. Each guard may be left out of the model, by name, to see what it is for."""

from __future__ import annotations

from typing import NamedTuple

TAKEN_BACK = "an accepted interrupt was taken back"
TWICE = "activity A starts twice, without any fault"
LEASE_LEFT = "stuck: a lease is left, and nobody looks"
WORK_LEFT = "stuck: there is work to do, and nobody looks"
VALUE_LEFT = "stuck: a value has come, and nobody looks"
TIMER_LEFT = "stuck: a timer is due, and nobody looks"
AGAIN = "activity A starts again, though its result is recorded"
UNASKED = "activity A starts, though the recorded history doesn't ask for it"
CHANGED = "a recorded event has changed"
ENDED_CHANGED = "the exec document of an ended execution has changed"
IGNORED = "an interrupt was accepted, and the execution ended as if there had been none"
OWN = "a driver took its own write for a stranger's"
FIRST_LOST = "a deferred has lost its first value"


class Guard(NamedTuple):
    """A guard: what it says and the place of the engine that keeps it; and how its loss shows first: in which program,
    after how many steps, as what. No steps: another guard stands behind it."""

    rule: str
    place: str
    program: str = ""
    steps: int = 0
    wrong: str = ""


GUARDS = {
    "claim-etag": Guard(
        "a claim replaces the version that was looked at", "claim.claim_stored, Store.replace", "steps", 4, TAKEN_BACK
    ),
    "lease": Guard("nobody claims an execution under a live lease", "Execution.is_runnable", "steps", 8, TWICE),
    "claim-due": Guard("a claim sets dueAt to the lease's end", "transitions.claim", "steps", 5, LEASE_LEFT),
    "own-create": Guard("a creator drives only what carries its own token", "claim.claim_new", "steps", 4, TWICE),
    "first-due": Guard("a new execution has a dueAt", "Client._start", "steps", 1, WORK_LEFT),
    "claim-first": Guard("claim first, then load", "Lease.load", "after", 7, VALUE_LEFT),
    "fresh": Guard("an execution that was claimed before isn't fresh", "Execution.is_fresh", "steps", 9, AGAIN),
    "history-length": Guard(
        "a load that is shorter than historyLength is read again", "Lease._read_partition", "steps", 9, AGAIN
    ),
    "inbox-count": Guard(
        "a load with less than inboxCount documents is read again", "Lease._read_partition", "after", 6, VALUE_LEFT
    ),
    "seal": Guard("a takeover seals the log", "Lease.load", "steps", 10, AGAIN),
    "load-again": Guard(
        "a driver that has loaded less than the exec document counts loads again", "Lease.load", "after", 16, VALUE_LEFT
    ),
    "reload": Guard("a seal that collides loads again", "Lease.load", "steps", 14, AGAIN),
    "unsealed": Guard(
        "a driver that lets go before its seal leaves its token, so that the next driver seals",
        "Lease.let_go",
        "steps",
        15,
        AGAIN,
    ),
    "create-only": Guard("a chunk is only ever created", "Store.append, Store.commit", "race", 10, CHANGED),
    "write-ahead": Guard(
        "events are recorded before the activities that follow from them start", "Drive._step", "race", 3, UNASKED
    ),
    "clock": Guard("nothing starts once the heartbeat is due", "Drive._step", "race", 14, UNASKED),
    "clock-before-write": Guard(
        "a lease's time counts from before the write that took it", "Lease.heartbeat_at", "steps", 14, UNASKED
    ),
    "heartbeat-etag": Guard("a heartbeat replaces the version in hand", "Lease.extend", "steps", 5, TAKEN_BACK),
    "suspend-etag": Guard(
        "a suspension replaces the version in hand", "Lease.let_go, Store.commit", "after", 4, TAKEN_BACK
    ),
    "complete-etag": Guard(
        "a completion replaces the version in hand", "Lease.let_go, Store.commit", "together", 7, ENDED_CHANGED
    ),
    "ours": Guard(
        "after a conflict a driver goes on only if it still holds the lease",
        "Lease.refresh",
        "together",
        7,
        ENDED_CHANGED,
    ),
    "reread": Guard("after a conflict the inbox is read again", "Lease.refresh", "after", 7, VALUE_LEFT),
    "exec-first": Guard("exec first, then inbox", "Lease.refresh", "two", 9, VALUE_LEFT),
    "late-interrupt": Guard(
        "an interrupt counts until the outcome is written", "Delivery.next_event", "two", 12, IGNORED
    ),
    "keep-interrupt": Guard(
        "no change of the exec document takes an interrupt back", "transitions.claim", "steps", 4, TAKEN_BACK
    ),
    "own-write": Guard(
        "a write that is sent again recognises its first try", "store.cosmos, `writeId`", "race", 5, OWN
    ),
    "one-batch": Guard("an item and its bump are one batch", "Store.signal", "after", 4, VALUE_LEFT),
    "first-writer": Guard("a deferred's document is only ever created", "Store.signal", "together", 3, FIRST_LOST),
    "running-only": Guard(
        "a signal is refused once the execution has ended",
        "Store.signal, Store.interrupt",
        "together",
        3,
        ENDED_CHANGED,
    ),
    "signal-due": Guard("a signal sets dueAt to now", "Store.signal, Store.interrupt", "after", 4, VALUE_LEFT),
    "release-due": Guard("a release sets dueAt to now", "transitions.release", "steps", 3, WORK_LEFT),
    "wake": Guard("a signal bumps wake", "Store.signal, Store.interrupt"),
    "due-runs": Guard(
        "a dueAt that has passed makes an execution runnable", "Execution.is_runnable", "race", 4, TIMER_LEFT
    ),
    "timer-due": Guard("a suspension keeps the dueAt of its timer", "transitions.suspend", "race", 4, TIMER_LEFT),
}


class Behind(NamedTuple):
    """A guard that another one covers for: with `other` gone too, in that program, there is a bad end after all."""

    other: str
    program: str
    steps: int
    wrong: str


COVERED = {"wake": Behind("due-runs", "after", 4, VALUE_LEFT)}
"""Defence in depth: without these guards alone nothing goes wrong."""
