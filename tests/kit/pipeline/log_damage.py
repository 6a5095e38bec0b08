"""Wounds to the files of a broker that is not running, as disks, bugs and hands make them.

Each takes a log's bytes and the index of a batch, and gives bytes that a broker serves without a complaint
after a clean stop: which is the point, for what it would refuse itself needs no verification.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from localcluster.cluster import LocalCluster
from pipeline.client.values import TopicPartition
from pipeline.verify.findings import Flaw
from springtide.wire.record_batch import CRC_START, HEADER_BYTES, BatchHeader, iter_headers

EPOCHS_FILE = "leader-epochs"


class Wound(NamedTuple):
    """`inflict` (bytes, index of a batch, rng) -> bytes; `kinds`: what a verification must call it, one of
    them. `reaches_end`: it goes from that batch to the end of the log."""

    inflict: Callable[[bytes, int, random.Random], bytes]
    kinds: frozenset[Flaw]
    reaches_end: bool = False


class Placed(NamedTuple):
    """The place of a wound: offsets `first_offset` to `last_offset` of a replica."""

    name: str
    partition: int
    broker_id: int
    first_offset: int
    last_offset: int


def _batches(data: bytes) -> list[tuple[int, BatchHeader]]:
    return list(iter_headers(data))


def flip_bit(data: bytes, at: int, rng: random.Random) -> bytes:
    """Somewhere in the records."""
    position, header = _batches(data)[at]
    wounded = bytearray(data)
    wounded[position + rng.randrange(HEADER_BYTES, header.size_bytes)] ^= 1 << rng.randrange(8)
    return bytes(wounded)


def drop_batch(data: bytes, at: int, rng: random.Random) -> bytes:
    position, header = _batches(data)[at]
    return data[:position] + data[position + header.size_bytes :]


def double_batch(data: bytes, at: int, rng: random.Random) -> bytes:
    position, header = _batches(data)[at]
    end = position + header.size_bytes
    return data[:end] + data[position:end] + data[end:]


def other_suffix(data: bytes, at: int, rng: random.Random) -> bytes:
    """Batches of the same offsets and sizes with other records, sealed with their right CRCs."""
    wounded = bytearray(data)
    for position, header in _batches(data)[at:]:
        end = position + header.size_bytes
        wounded[end - 2] ^= 0x40
        crc = crc32c(bytes(wounded[position + CRC_START : end]))
        wounded[position + CRC_START - 4 : position + CRC_START] = struct.pack(">I", crc)
    return bytes(wounded)


def foreign_suffix(data: bytes, at: int, rng: random.Random) -> bytes:
    """The same batches in the name of a leader that never was: the replica stops following when it learns
    that its committed records are not the leader's, and stays where it is."""
    wounded = bytearray(data)
    for position, header in _batches(data)[at:]:
        wounded[position + 12 : position + 16] = struct.pack(">i", header.leader_epoch + 7)
    return bytes(wounded)


WOUNDS: dict[str, Wound] = {
    "bit flip": Wound(flip_bit, frozenset({Flaw.CRC_MISMATCH})),
    "dropped batch": Wound(drop_batch, frozenset({Flaw.BATCH_MISSING})),
    "batch twice": Wound(double_batch, frozenset({Flaw.OFFSETS_GO_BACK})),
    # Its leader finds it when the replica fetches again, so that it stays behind as well.
    "divergent suffix": Wound(
        other_suffix, frozenset({Flaw.BATCH_DIFFERS, Flaw.STALE_REPLICA}), reaches_end=True
    ),
    "stale replica": Wound(
        foreign_suffix, frozenset({Flaw.BATCH_DIFFERS, Flaw.STALE_REPLICA}), reaches_end=True
    ),
}


def wound_replica(
    cluster: LocalCluster, where: TopicPartition, broker_id: int, *, name: str, rng: random.Random
) -> Placed:
    """Inflicts a wound on a log of a broker that was stopped. Not on its first or last batches, which a
    broker looks at when it starts."""
    broker = cluster.brokers[broker_id]
    assert not broker.process.is_running, "its files are its own while it runs"
    (directory,) = broker.data_directory.glob(f"{where}.*")
    (path,) = sorted(directory.glob("*.log"))
    data = path.read_bytes()
    batches = _batches(data)
    at = rng.randrange(len(batches) // 3, 2 * len(batches) // 3)
    wound = WOUNDS[name]
    path.write_bytes(wound.inflict(data, at, rng))
    forget_index(directory)
    if wound.inflict is foreign_suffix:
        (directory / EPOCHS_FILE).unlink()
    last = batches[-1 if wound.reaches_end else at][1]
    return Placed(name, where.partition, broker_id, batches[at][1].base_offset, last.last_offset)


def forget_index(directory: Path) -> None:
    """Delete the index; it is made again from the log, as after any doubt about it."""
    for index in directory.glob("*.index"):
        index.unlink()
