"""Partitions' audited changes, from the controller's REST API: the shell of audited.py."""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pipeline.client.values import ClusterMetadata, TopicPartition
from pipeline.verify.audited import AuditedState
from springtide.cli.call import get
from springtide.cli.client import Page

if TYPE_CHECKING:
    from springtide.cli.client import Controllers

ROWS_PER_PAGE = 1_000
ROWS_MAX = 200_000
"""Of one topic, the newest. What is older is then as if retention had removed it."""


def read_audit(
    controllers: Controllers, cluster: str, topics: Iterable[str], metadata: ClusterMetadata
) -> dict[TopicPartition, list[AuditedState]]:
    """Each partition's changes, oldest first; those of an earlier topic of the same name are left out. Raises
    Refused or Unreachable."""
    found: dict[TopicPartition, list[AuditedState]] = {}
    for topic in topics:
        topic_id = rest_topic_id(metadata.topics[topic].topic_id)
        call = get("audit", cluster=cluster, topic=topic, kind="change", entity="partition")
        for reply in controllers.pages(call, page_limit=ROWS_PER_PAGE, limit=ROWS_MAX):
            for row in reply.parse(Page).items:
                state = audited_state(row, topic_id)
                if state is not None:
                    found.setdefault(TopicPartition(topic, row["partition"]), []).append(state)
    return {where: states[::-1] for where, states in found.items()}


def audited_state(row: Mapping[str, Any], topic_id: str | None) -> AuditedState | None:
    """None for a row that says nothing of this topic's partitions. topic_id None: any topic's."""
    after, before = row["after"], row["before"]
    if after is None or (topic_id is not None and after["topic_id"] != topic_id):
        return None
    return AuditedState(
        None if before is None else before["leader_epoch"],
        after["leader_epoch"],
        after["leader"],
        row["at"],
        row["gap_before"],
    )


def rest_topic_id(text: str) -> str | None:
    """A UUID's text as the controller writes it: 22 characters of URL-safe base64. None: no id."""
    try:
        return base64.urlsafe_b64encode(uuid.UUID(text).bytes).rstrip(b"=").decode("ascii")
    except (ValueError, binascii.Error):
        return None
