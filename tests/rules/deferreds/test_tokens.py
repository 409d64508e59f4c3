"""Tokens name a deferred; signed, they let their holder complete that one and nothing else."""

import base64
import json

import pytest

from engine.ground.errors import InvalidInput
from engine.ground.tokens import Target, decode, encode, parse_keys, sign, verify

TARGET = Target("order", "0" * 32, "approval[ü/é]")
OLD, NEW = "o" * 32, "n" * 32


def test_round_trip() -> None:
    assert decode(encode(TARGET)) == TARGET
    assert json.loads(base64.urlsafe_b64decode(encode(TARGET) + "==")) == ["order", "0" * 32, "approval[ü/é]"]


@pytest.mark.parametrize("token", ["", "!", "é", "bm8", "WzFd", "WzEsMiwzXQ", "eyJhIjoxfQ", "IiI", "x" * 5_000])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidInput):
        decode(token)


def test_keys_rotate() -> None:
    """The first key signs; older ones still verify until they are taken away."""
    signed = sign(encode(TARGET), [OLD])
    assert verify(signed, [NEW, OLD]) == TARGET
    with pytest.raises(InvalidInput, match="signature"):
        verify(signed, [NEW])


def test_a_changed_token_is_refused() -> None:
    """Another deferred under the same signature, a cut signature, or none."""
    signed = sign(encode(TARGET), [OLD])
    signature = signed.rpartition(".")[2]
    for forged in (f"{encode(Target('order', '1' * 32, 'approval'))}.{signature}", signed[:-1], encode(TARGET), "ü.ü"):
        with pytest.raises(InvalidInput):
            verify(forged, [OLD])


def test_short_keys_are_refused() -> None:
    assert parse_keys("") == ()
    assert parse_keys(f" {NEW} , {OLD} ") == (NEW, OLD)
    with pytest.raises(ValueError, match="ENGINE_SIGNING_KEY"):
        parse_keys("secret")
