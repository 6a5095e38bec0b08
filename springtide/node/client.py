"""The client at the other end of a connection, as those parts see it that do not use the connection."""

from __future__ import annotations

from typing import Protocol


class KnownClient(Protocol):
    """See Connection for what each says."""

    peer: str
    listener: str
    client_id: str | None
    software: str
    principal: str
    certificate_names: frozenset[str]
