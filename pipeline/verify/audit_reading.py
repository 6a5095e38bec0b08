"""Partitions' audited changes, from the controller's REST API: the shell of audited.py."""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pipeline.client.values import ClusterMetadata, TopicPartition
from pipeline.verify.audited import AuditedEpoch
from springtide.cli.call import get
from springtide.cli.client import ListPage

if TYPE_CHECKING:
    from springtide.cli.client import Controllers

ROWS_PER_PAGE = 1_000
ROWS_MAX = 200_000
"""The newest rows of one topic. Older rows count as removed by retention."""


def read_audit(
    controllers: Controllers, cluster: str, topics: Iterable[str], metadata: ClusterMetadata
) -> dict[TopicPartition, list[AuditedEpoch]]:
    """Return each partition's changes, oldest first, without those of an earlier topic of the same name.
    Raises Refused or Unreachable."""
    found: dict[TopicPartition, list[AuditedEpoch]] = {}
    for topic in topics:
        topic_id = rest_topic_id(metadata.topics[topic].topic_id)
        call = get("audit", cluster=cluster, topic=topic, kind="change", entity="partition")
        for reply in controllers.pages(call, page_limit=ROWS_PER_PAGE, limit=ROWS_MAX):
            for row in reply.parse(ListPage).items:
                state = audited_state(row, topic_id)
                if state is not None:
                    found.setdefault(TopicPartition(topic, row["partition"]), []).append(state)
    return {where: states[::-1] for where, states in found.items()}


def audited_state(row: Mapping[str, Any], topic_id: str | None) -> AuditedEpoch | None:
    """Return the change; None for a row that is not about this topic's partitions. topic_id None: any
    topic."""
    after, before = row["after"], row["before"]
    if after is None or (topic_id is not None and after["topic_id"] != topic_id):
        return None
    return AuditedEpoch(
        None if before is None else before["leader_epoch"],
        after["leader_epoch"],
        after["leader"],
        row["at"],
        row["gap_before"],
    )


def rest_topic_id(text: str) -> str | None:
    """Return a UUID as the controller writes it: 22 characters of URL-safe base64; None for no UUID."""
    try:
        return base64.urlsafe_b64encode(uuid.UUID(text).bytes).rstrip(b"=").decode("ascii")
    except (ValueError, binascii.Error):
        return None
