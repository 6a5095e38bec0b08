"""Answers about verifications of `prod`: a flipped bit on broker 3. They continue the example of
values.py."""

from __future__ import annotations

from typing import Any, Final

from admin_api.examples.story import Shown, items

_SUMMARY: Final[dict[str, Any]] = {
    "id": "ver_Zk1lV0pCTEq4nY6mXw2v3A",
    "cluster": "prod",
    "verdict": "damaged",
    "began_at": "2026-11-21T02:00:00.000Z",
    "ended_at": "2026-11-21T02:01:52.000Z",
    "recorded_at": "2026-11-21T02:01:52.100Z",
    "topics": 1,
    "partitions_total": 12,
    "batches": 1_200_000,
    "records": 24_000_000,
    "bytes": 4_831_838_208,
    "compared_bytes": 14_495_514_624,
    "findings_total": 1,
    "findings_kept": 1,
    "actor": "alice",
    "reason": "nightly",
}
_VERIFICATION: Final = _SUMMARY | {
    "partitions": [
        {
            "topic": "orders",
            "partition": 0,
            "first_offset": 0,
            "next_offset": 2_000_000,
            "records": 2_000_000,
            "findings": 1,
        }
    ]
}
_FINDING: Final = {
    "position": 0,
    "kind": "crc_mismatch",
    "topic": "orders",
    "partition": 0,
    "broker_id": 3,
    "first_offset": 1_204_960,
    "last_offset": 1_204_979,
    "batches": 1,
    "detail": "stored CRC 1c6e0d58, the bytes have 77e1a9f0",
}

#: By operation id and status.
VERIFICATIONS: Final[dict[tuple[str, int], tuple[Shown, ...]]] = {
    ("listVerifications", 200): (Shown("one", "A bit has flipped", items(_SUMMARY)),),
    ("recordVerification", 201): (Shown("damaged", "A bit has flipped", _VERIFICATION),),
    ("recordVerification", 200): (Shown("dry_run", "What would be kept", _VERIFICATION),),
    ("getVerification", 200): (Shown("damaged", "A bit has flipped", _VERIFICATION),),
    ("listFindings", 200): (Shown("one", "On broker 3, in one batch", items(_FINDING)),),
}
