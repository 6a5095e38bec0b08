"""The body of an OffsetCommit request, for connections of `Raw`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def commit_fields(
    group_id: str, topic: str, offsets: Mapping[int, int], *, metadata: str = "", **fields: Any
) -> dict[str, Any]:
    """Return a commit of the offsets, by partition, as by a client that is no member. fields: others."""
    partitions = [
        {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": metadata,
        }
        for partition, offset in offsets.items()
    ]
    wanted: dict[str, Any] = {
        "group_id": group_id,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": topic, "partitions": partitions}],
    }
    return wanted | fields
