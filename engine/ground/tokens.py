"""Tokens: one text that names a deferred of an execution, to give to the outside.

A token is base64url of the JSON array [workflow, execution id, deferred name]. It is a name, not a secret. Tokens that
leave through HTTP are signed (`token.signature`, HMAC-SHA-256). The holder of a signed token may resolve that deferred
and nothing else. Several keys may be valid at a time: the first one signs, and all verify. So keys can be rotated.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass

from engine.ground.errors import InvalidInput

MIN_KEY_CHARACTERS = 32


@dataclass(frozen=True)
class Target:
    """The deferred that a token names."""

    workflow: str
    execution_id: str
    deferred: str


def encode(target: Target) -> str:
    """The token of a deferred."""
    text = json.dumps([target.workflow, target.execution_id, target.deferred], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(token: str) -> Target:
    """The deferred that a token names. Raises InvalidInput if the text is no token."""
    try:
        parts = json.loads(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
        workflow, execution_id, deferred = parts
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise InvalidInput(f"this isn't a token of a deferred: {token[:80]!r}", [("token", "malformed")]) from None
    if not all(isinstance(part, str) for part in parts):
        raise InvalidInput(f"this isn't a token of a deferred: {token[:80]!r}", [("token", "malformed")])
    return Target(workflow, execution_id, deferred)


def sign(token: str, keys: Sequence[str]) -> str:
    """The token with its signature, made with the first key."""
    return f"{token}.{_signature(token, keys[0])}"


def verify(signed: str, keys: Sequence[str]) -> Target:
    """The deferred that a signed token names. Raises InvalidInput if none of the keys has signed the token."""
    token, _, signature = signed.encode("utf-8", "replace").decode().rpartition(".")
    if not any(hmac.compare_digest(signature.encode(), _signature(token, key).encode()) for key in keys):
        raise InvalidInput("the token's signature is not valid", [("token", "not signed by this app")])
    return decode(token)


def parse_keys(text: str) -> tuple[str, ...]:
    """The keys in a setting's text, which separates them by commas. Raises ValueError for a key that is too short to be
    safe."""
    keys = tuple(key.strip() for key in text.split(",") if key.strip())
    if any(len(key) < MIN_KEY_CHARACTERS for key in keys):
        raise ValueError(f"a key of ENGINE_SIGNING_KEY must have at least {MIN_KEY_CHARACTERS} characters")
    return keys


def _signature(token: str, key: str) -> str:
    digest = hmac.new(key.encode(), token.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
