"""A plan as the file that a checkpoint keeps: gzipped JSON, every value checked as it is read. Pure."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import msgspec

from pipeline.errors import ReplayError
from pipeline.replay.plan import FilePiece, Piece, ReplayPlan, ReplayRange, ReplaySettings
from pipeline.stored import check_version

VERSION = 1
ENCODED_BYTES_MAX = 64 * 1024 * 1024
DECODED_BYTES_MAX = 1024 * 1024 * 1024


class _Rounds(msgspec.Struct):
    rounds: list[list[list[list[Any]]]]


def encode_plan(plan: ReplayPlan) -> bytes:
    """Return the plan's bytes; equal plans have equal bytes. Raises ReplayError for one that is too large."""
    fields = {**msgspec.to_builtins(plan.settings), "rounds": msgspec.to_builtins(plan.rounds)}
    text = json.dumps({"version": VERSION, **fields}, separators=(",", ":")).encode()
    encoded = gzip.compress(text, compresslevel=6, mtime=0)
    if len(encoded) > ENCODED_BYTES_MAX or len(text) > DECODED_BYTES_MAX:
        raise ReplayError(
            f"a plan of {len(encoded)} bytes is too large to be kept (at most {ENCODED_BYTES_MAX})",
            "Replay a part: a folder, or a span of time.",
        )
    return encoded


def decode_plan(encoded: bytes, name: str) -> ReplayPlan:
    """Return what `encode_plan` encoded; `name` is where it stands, for the message. Raises ReplayError."""
    try:
        text = _unzipped(encoded)
        check_version(text, VERSION)
        settings = msgspec.json.decode(text, type=ReplaySettings)
        rounds = msgspec.json.decode(text, type=_Rounds).rounds
        return ReplayPlan(settings, tuple(tuple(tuple(map(_piece, task)) for task in one) for one in rounds))
    except (ValueError, EOFError, zlib.error, RecursionError) as error:
        raise ReplayError(
            f"{name} is damaged, or not ours: {error!r}",
            "Without its plan a replay can't be resumed: restore the file from a backup.",
        ) from error


def _unzipped(encoded: bytes) -> bytes:
    """Return the content of one whole gzip member of a bounded size."""
    unzip = zlib.decompressobj(wbits=31)
    text = unzip.decompress(encoded, DECODED_BYTES_MAX)
    if not unzip.eof or unzip.unused_data:
        raise ValueError("cut off, too large, or with something behind its end")
    return text


def _piece(values: list[Any]) -> Piece:
    if len(values) == len(ReplayRange._fields):
        log = msgspec.convert(values, ReplayRange)
        if log.end_offset <= log.start_offset:
            raise ValueError(f"offsets {log.start_offset} to {log.end_offset}")
        return log
    piece = msgspec.convert(values, FilePiece)
    for file in piece.files:
        if not file.path or file.path.startswith("/") or ".." in file.path.split("/"):
            raise ValueError(f"{file.path!r} is no file of the lake")
    return piece
