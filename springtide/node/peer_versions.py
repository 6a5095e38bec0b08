"""The version in which two processes of the cluster talk: the highest that both speak, asked for on each
connection. It is never kept for the next one: a process that is gone may come back in an earlier release."""

from __future__ import annotations

from springtide.node.net import Channel
from springtide.node.peer_requests import ask
from springtide.wire.apis import ApiKey
from springtide.wire.client import API_VERSIONS_VERSION, WireClient, spoken_versions

ANSWER_BYTES_MAX = 1024 * 1024


class NoCommonVersion(OSError):
    """The two have no version of an API in common. The message says which each of them speaks."""


async def common_version(channel: Channel, client_id: str, api_key: ApiKey, own: range) -> int:
    """Return the highest version of the API that the peer and this process, which speaks `own`, have in
    common. Nothing else may be on its way on the connection. Raise NoCommonVersion or another OSError,
    FrameError, MalformedRequest."""
    client: WireClient[None] = WireClient(client_id, answer_bytes_max=ANSWER_BYTES_MAX)
    answer = await ask(channel, client, ApiKey.API_VERSIONS, API_VERSIONS_VERSION, [])
    lowest, highest = spoken_versions(answer.message()).get(api_key, (0, -1))
    version = min(highest, own[-1])
    if version < max(lowest, own[0]):
        spoken = f"{lowest}..{highest}" if highest >= 0 else "none"
        raise NoCommonVersion(
            f"it speaks {api_key.kafka_name} {spoken}, this one {own[0]}..{own[-1]}: their releases are too "
            "far apart, upgrade by one at a time"
        )
    return version
