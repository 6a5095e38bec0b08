"""The hash chain over a cluster's history: each entry carries its predecessor's hash and its own.

    hash = SHA-256(previous_hash, newline, canonical content)

An entry is a row of `audit` or of `audit_outcomes`; both stand in one chain, numbered without holes by
`chain_position`, so that altering, inserting, removing or reordering any of them shows at the first entry
that no longer fits. The content is everything an entry says, in a form that every database gives back as it
was written. Ids are left out, for the database gives them out as it writes: an outcome names its request by
`seq`. No secret is involved: an intruder who rewrites the whole chain can make it fit again, but not make it
end in a hash that was noted elsewhere.

The form is frozen. Rows hashed under it exist; a change of it needs a migration that hashes them anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

_ROW_FIELDS: Final = (
    "cluster",
    "seq",
    "kind",
    "entity",
    "entity_id",
    "version",
    "cause",
    "actor",
    "reason",
    "request_id",
    "operation_id",
    "at_ms",
    "recorded_at_ms",
    "topic",
    "partition",
    "brokers",
    "before",
    "after",
    "controller_epoch",
    "backfilled",
    "gap_before",
)
_OUTCOME_FIELDS: Final = ("outcome", "code", "detail", "at_ms")


def hash_row(row: Mapping[str, Any], *, position: int, previous_hash: str) -> str:
    """The hash, 64 hexadecimal digits, of a row of `audit`. row: its columns by name; others are ignored."""
    content = {name: row[name] for name in _ROW_FIELDS}
    return _hash({"table": "audit", "chain_position": position, **content}, previous_hash)


def hash_outcome(
    outcome: Mapping[str, Any], *, cluster: str, request_seq: int, position: int, previous_hash: str
) -> str:
    """The hash of a row of `audit_outcomes`. request_seq: `seq` of the request that it belongs to."""
    content = {name: outcome[name] for name in _OUTCOME_FIELDS}
    place = {"cluster": cluster, "request_seq": request_seq, "chain_position": position}
    return _hash({"table": "audit_outcomes", **place, **content}, previous_hash)


def _hash(content: Mapping[str, Any], previous_hash: str) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(f"{previous_hash}\n{canonical}".encode("ascii")).hexdigest()
