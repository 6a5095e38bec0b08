"""Where the bindings of a pattern are in ZooKeeper: a row among others of a chunk, or a znode of their own.

    /clusters/{cluster}/acls/chunk-{number}   the rows of the patterns whose names' hashes say so
    /clusters/{cluster}/acls/{pattern}        one row: with many bindings, or written before there were chunks

A controller that takes over reads every row, and a read costs the same for one row as for a hundred: 20,000
patterns, each in a znode of its own, took it ten seconds. A pattern's next change moves it into its chunk,
unless its row or the chunk would become too large. No pattern's name begins like a chunk's: it has a colon.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from controller.core.records import AclsRecord
from controller.shell.kept_fields import check_kept
from controller.shell.meta import Create, Delete, Node, Operation, SetData
from controller.shell.security_rows import acls_row, read_acls, security_path

CHUNKS: Final = 256
#: A row above this has a znode of its own, and a chunk takes no row that would make it larger than that: a
#: change of one pattern writes the whole chunk.
ROW_BYTES_MAX: Final = 8_000
CHUNK_BYTES_MAX: Final = 200_000
CHUNK_PREFIX: Final = "chunk-"


class AclsChunkRow(msgspec.Struct, frozen=True, kw_only=True):
    """rows: each an AclsRow, encoded."""

    rows: tuple[msgspec.Raw, ...]


class _Row(NamedTuple):
    """A row with the record that it is of: a change of one pattern encodes no other of its chunk again."""

    record: AclsRecord
    number: int
    encoded: bytes


@dataclass(slots=True)
class _Chunk:
    """rows: by the path that a znode of the pattern's own would have.
    size: of the znode, or more. version None: it does not exist."""

    rows: dict[str, _Row] = field(default_factory=dict)
    version: int | None = None
    size: int = 0


class AclChunks:
    """The chunks of one cluster as ZooKeeper has them, or will have them once `seal`ed writes are applied.
    folder: their path."""

    def __init__(self, cluster: str, folder: str) -> None:
        self._cluster = cluster
        self._folder = folder
        self._chunks: dict[int, _Chunk] = {}

    def load(self, path: str, node: Node) -> None:
        """Take in the chunk at a path. Raise msgspec.MsgspecError, WrittenByNewer, or ValueError for another
        chunk's row."""
        number = int(path.removeprefix(f"{self._folder}/{CHUNK_PREFIX}"))
        chunk = self._chunks[number] = _Chunk(version=node.version, size=len(node.data))
        whole = msgspec.json.decode(node.data, type=AclsChunkRow)
        check_kept(path, node.data, msgspec.json.encode(whole))
        for raw in whole.rows:
            record, row_number = read_acls(path, raw)
            of_pattern = security_path(self._cluster, record)
            if number_of(of_pattern) != number:
                raise ValueError(f"{path} holds the row of another chunk")
            chunk.rows[of_pattern] = _Row(record, row_number, bytes(raw))

    def records(self) -> Iterator[tuple[AclsRecord, int]]:
        """Yield the records of all chunks, with their numbers."""
        for number in sorted(self._chunks):
            yield from (row[:2] for row in self._chunks[number].rows.values())

    def bytes_of(self, path: str) -> int:
        """Return the size of the chunk that has, or would have, the pattern of a path: what is written beside
        its row."""
        chunk = self._chunks.get(number_of(path))
        return 0 if chunk is None else chunk.size

    def put(self, path: str, record: AclsRecord, number: int) -> int | None:
        """Put the pattern's row into its chunk, in place of the one that it has. Return the chunk's number;
        None if the row needs a znode of its own."""
        encoded = msgspec.json.encode(acls_row(record, number))
        chunk = self._chunks.setdefault(number_of(path), _Chunk())
        if len(encoded) > ROW_BYTES_MAX or chunk.size + len(encoded) > CHUNK_BYTES_MAX:
            return None
        chunk.rows[path] = _Row(record, number, encoded)
        chunk.size += len(encoded)
        return number_of(path)

    def remove(self, path: str) -> int | None:
        """Remove the pattern's row from its chunk; return the chunk's number, or None if it is not there."""
        chunk = self._chunks.get(number_of(path))
        if chunk is None or chunk.rows.pop(path, None) is None:
            return None
        return number_of(path)

    def seal(self, number: int) -> Operation | None:
        """Return the operation that writes the chunk, and count on it; None if there is nothing to do."""
        chunk = self._chunks[number]
        path, version = f"{self._folder}/{CHUNK_PREFIX}{number}", chunk.version
        if not chunk.rows:
            chunk.version, chunk.size = None, 0
            return None if version is None else Delete(path, version)
        rows = tuple(msgspec.Raw(chunk.rows[name].encoded) for name in sorted(chunk.rows))
        data = msgspec.json.encode(AclsChunkRow(rows=rows))
        chunk.size = len(data)
        chunk.version = 0 if version is None else version + 1
        return Create(path, data) if version is None else SetData(path, data, version)


def number_of(path: str) -> int:
    """Return the number of the chunk for a pattern, by its path."""
    return int.from_bytes(sha256(path.rpartition("/")[2].encode()).digest()[:4]) % CHUNKS
