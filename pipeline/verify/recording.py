"""Writes a result to the controller's SQL, through its REST API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from springtide.cli.call import CHANGE_SECONDS_MAX, Call, address

if TYPE_CHECKING:
    from pipeline.jobs.context import Context

PARTITIONS_MAX = 2_000
"""Partitions that the controller gets one by one, those with findings first. All are counted."""
FINDINGS_MAX = 1_000
DETAIL_CHARS_MAX = 300
BODY_BYTES_MAX = 900_000
"""Less than the API takes in one request."""


def body_of(result: Mapping[str, Any], *, reason: str | None) -> dict[str, Any]:
    """Return what POST /clusters/{cluster}/verifications takes."""
    partitions = sorted(
        result["partitions"], key=lambda one: (not one["findings"], one["topic"], one["partition"])
    )
    body: dict[str, Any] = {
        "began_at_ms": result["beganMs"],
        "ended_at_ms": result["endedMs"],
        "topics": len(result["topics"]),
        "partitions_total": result["partitionsTotal"],
        "batches": result["batches"],
        "records": result["records"],
        "bytes": result["bytes"],
        "compared_bytes": result["comparedBytes"],
        "findings_total": result["findingsTotal"],
        "findings": [
            {
                "kind": one["kind"],
                "topic": one["topic"],
                "partition": one["partition"],
                "broker_id": one["broker"],
                "first_offset": one["firstOffset"],
                "last_offset": one["lastOffset"],
                "batches": one["batches"],
                "detail": one["detail"][:DETAIL_CHARS_MAX],
            }
            for one in result["findings"][:FINDINGS_MAX]
        ],
        "partitions": [
            {
                "topic": one["topic"],
                "partition": one["partition"],
                "first_offset": one["firstOffset"],
                "next_offset": one["nextOffset"],
                "records": one["records"],
                "findings": one["findings"],
            }
            for one in partitions[:PARTITIONS_MAX]
        ],
    }
    if reason is not None:
        body["reason"] = reason
    while len(json.dumps(body)) > BODY_BYTES_MAX:  # topics with names of 249 characters
        name = "partitions" if len(body["partitions"]) > len(body["findings"]) else "findings"
        body[name] = body[name][: len(body[name]) // 2]
    return body


def record(result: Mapping[str, Any], context: Context, *, reason: str | None) -> str:
    """Write the result; return the verification's id. Raises Refused or Unreachable."""
    call = Call(
        method="POST",
        path=address("clusters", context.cluster, "verifications"),
        body=body_of(result, reason=reason),
        answer_s_max=CHANGE_SECONDS_MAX,
    )
    with context.controllers() as controllers:
        return str(controllers.send(call).document()["id"])
