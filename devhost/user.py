"""A stand-in for the platform's sign-in: every caller with the key has signed in as one user.

The platform sets headers that name the caller, and removes such headers from requests. So does this host.
(https://learn.microsoft.com/azure/app-service/configure-authentication-user-identities)
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass

from devhost.settings import LoadError

PREFIX = "x-ms-client-principal"
SIGN_IN_SETTING = "ENGINE_SIGN_IN"


@dataclass(frozen=True)
class StandIn:
    """The user: a name, and the roles that the app gives to users."""

    name: str
    roles: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> StandIn:
        """The user in `NAME:ROLE,ROLE`. Raises LoadError."""
        name, _, roles = text.partition(":")
        named = tuple(role.strip() for role in roles.split(",") if role.strip())
        if not name.strip() or not named:
            raise LoadError(f"--user takes a name and roles, as in Ada:operator, not {text!r}")
        return cls(name.strip(), named)

    def header(self) -> str:
        """The value of the header in which the platform describes a caller to the app."""
        claims = [("oid", f"local-{self.name}"), ("name", self.name), *(("roles", role) for role in self.roles)]
        principal = {
            "auth_typ": "aad",
            "name_typ": "name",
            "role_typ": "roles",
            "claims": [{"typ": kind, "val": value} for kind, value in claims],
        }
        return base64.b64encode(json.dumps(principal).encode()).decode()


def signed_in(headers: Mapping[str, str], user: StandIn | None) -> dict[str, str]:
    """The headers of a request as the app gets them, with names in lower case. `user` is None without a sign-in."""
    kept = {name: value for name, value in headers.items() if not name.startswith(PREFIX)}
    return kept if user is None else kept | {PREFIX: user.header()}
