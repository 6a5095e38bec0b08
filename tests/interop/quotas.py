"""Quotas of a user, set and read with requests of our own: the runner's client has no call for them."""

from __future__ import annotations

from typing import Any

import trio

from springtide.wire.apis import ApiKey
from tests.kit.dataplane.raw import Raw

VERSION = 1
EXACTLY = 0


def set_quota(bootstrap: str, user: str, name: str, value: float) -> None:
    entity = {"entity_type": "user", "entity_name": user}
    entry = {"entity": [entity], "ops": [{"key": name, "value": value, "remove": False}]}
    told = _ask(bootstrap, ApiKey.ALTER_CLIENT_QUOTAS, {"entries": [entry], "validate_only": False})
    assert told.entries[0].error_code == 0, told


def quotas_of(bootstrap: str, user: str) -> dict[str, float]:
    component = {"entity_type": "user", "match_type": EXACTLY, "match": user}
    told = _ask(bootstrap, ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": [component], "strict": True})
    assert told.error_code == 0, told
    return {one.key: one.value for entry in told.entries or () for one in entry.values}


def _ask(bootstrap: str, api_key: int, fields: dict[str, object]) -> Any:
    host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")

    async def ask() -> Any:
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            return await Raw(stream).ask(api_key, VERSION, fields)

    return trio.run(ask)
