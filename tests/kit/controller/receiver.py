"""Receivers of webhooks: one in memory, and what any of them does to know who sent."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.webhooks.posting import Posted


def is_signed(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    """Verify a request as Standard Webhooks says, from its text and by no code of the sender."""
    key = base64.b64decode(secret.split("_", 1)[1])
    signed = ".".join((headers["webhook-id"], headers["webhook-timestamp"], body.decode())).encode()
    expected = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    given = [one.partition(",") for one in headers["webhook-signature"].split(" ")]
    return any(version == "v1" and hmac.compare_digest(found, expected) for version, _, found in given)


@dataclass
class MemoryReceiver:
    """Stands where messages are sent from. status: of its answers; None: there is none."""

    status: int | None = 204
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Posted:
        self.requests.append((url, dict(headers), body))
        return Posted(self.status, None if self.status else "no answer")

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in self.requests]

    @property
    def told(self) -> list[tuple[str, str]]:
        """Events and codes."""
        return [(body["event"], body["alarm"]["code"]) for body in self.bodies]
