"""A plan as the file that a checkpoint keeps: gzipped JSON, in which no number is believed unseen. Pure."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from typing import Any

from pipeline.replay.errors import ReplayError
from pipeline.replay.plan import (
    NO_PARTITION,
    NO_TIME,
    FilePiece,
    LakeFile,
    LogPiece,
    Partitioning,
    Piece,
    Plan,
    Round,
    Settings,
    Timestamps,
)

VERSION = 1
ENCODED_BYTES_MAX = 64 * 1024 * 1024
DECODED_BYTES_MAX = 1024 * 1024 * 1024
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


def encode_plan(plan: Plan) -> bytes:
    """Equal plans have equal bytes. Raises ReplayError for one that is too large to be read again."""
    settings = plan.settings
    document = {
        "version": VERSION,
        "kind": "replay",
        "runId": settings.run_id,
        "source": settings.source,
        "sourceTopic": settings.source_topic,
        "topic": settings.topic,
        "topicId": settings.topic_id,
        "partitionCount": settings.partition_count,
        "partitioning": settings.partitioning.value,
        "timestamps": settings.timestamps.value,
        "fromMs": settings.from_ms,
        "untilMs": settings.until_ms,
        "batchBytes": settings.batch_bytes,
        "batchRecords": settings.batch_records,
        "plannedMs": settings.planned_ms,
        "rounds": [[[_told(piece) for piece in task] for task in one] for one in plan.rounds],
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    encoded = gzip.compress(text, compresslevel=6, mtime=0)
    if len(encoded) > ENCODED_BYTES_MAX or len(text) > DECODED_BYTES_MAX:
        raise ReplayError(
            f"a plan of {len(encoded)} bytes is too large to be kept (at most {ENCODED_BYTES_MAX})",
            "Replay a part: a folder, or a span of time.",
        )
    return encoded


def decode_plan(encoded: bytes, name: str) -> Plan:
    """What `encode_plan` wrote. `name`: where it stands, for the message. Raises ReplayError."""
    try:
        document = json.loads(_unzipped(encoded))
        if not isinstance(document, dict) or document.get("kind") != "replay":
            raise ValueError("no replay's plan")
        if document["version"] != VERSION:
            raise ValueError(f"version {document['version']!r}, this release knows {VERSION}")
        return Plan(_settings(document), tuple(_round(one) for one in _list(document["rounds"])))
    except (ValueError, KeyError, TypeError, EOFError, zlib.error, RecursionError) as error:
        raise ReplayError(
            f"{name} is damaged, or not ours: {error!r}",
            "Without its plan a replay can't be resumed: restore the file from a backup.",
        ) from error


def _unzipped(encoded: bytes) -> bytes:
    """One gzip member of a bounded size, whole."""
    unzip = zlib.decompressobj(wbits=31)
    text = unzip.decompress(encoded, DECODED_BYTES_MAX)
    if not unzip.eof or unzip.unused_data:
        raise ValueError("cut off, too large, or with something behind its end")
    return text


def _settings(document: Mapping[str, Any]) -> Settings:
    return Settings(
        run_id=_text(document["runId"]),
        source=_text(document["source"]),
        source_topic=_text(document["sourceTopic"]),
        topic=_text(document["topic"]),
        topic_id=_text(document["topicId"]),
        partition_count=_number(document["partitionCount"], least=1, most=_INT32_MAX),
        partitioning=Partitioning(document["partitioning"]),
        timestamps=Timestamps(document["timestamps"]),
        from_ms=_number(document["fromMs"], least=NO_TIME),
        until_ms=_number(document["untilMs"], least=NO_TIME),
        batch_bytes=_number(document["batchBytes"], least=1, most=_INT32_MAX),
        batch_records=_number(document["batchRecords"], least=1, most=_INT32_MAX),
        planned_ms=_number(document["plannedMs"]),
    )


def _told(piece: Piece) -> list[object]:
    if isinstance(piece, LogPiece):
        return list(piece)
    return [[list(file) for file in piece.files], piece.partition, piece.records]


def _round(told: object) -> Round:
    return tuple(tuple(_piece(piece) for piece in _list(task)) for task in _list(told))


def _piece(told: object) -> Piece:
    values = _list(told)
    if len(values) == len(LogPiece._fields):
        topic, partition, start, end = values
        log = LogPiece(_text(topic), _number(partition, most=_INT32_MAX), _number(start), _number(end))
        if log.end_offset <= log.start_offset:
            raise ValueError(f"offsets {start} to {end}")
        return log
    files, partition, records = values
    pairs = [_list(file) for file in _list(files)]
    return FilePiece(
        tuple(LakeFile(_path(path), _number(size)) for path, size in pairs),
        _number(partition, least=NO_PARTITION, most=_INT32_MAX),
        _number(records, least=1),
    )


def _path(value: object) -> str:
    """Relative, and going nowhere but down."""
    path = _text(value)
    if not path or path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{path!r} is no file of the lake")
    return path


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: object, *, least: int = 0, most: int = _INT64_MAX) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{value!r} is no number from {least} to {most}")
    return value
