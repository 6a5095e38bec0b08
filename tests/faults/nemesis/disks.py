"""What every replica holds in the end, read from its disk by the storage engine's own reader.

The final read shows what clients can have; this shows what is there: whether two replicas agree below the
high watermark, and where a record is that no client can read.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dataplane.storage.checkpoints import HIGH_WATERMARKS, read_checkpoint
from dataplane.storage.disk import PosixDisk
from dataplane.storage.dump import dump_segment
from dataplane.storage.log_dir import DIVERGENT, QUARANTINE
from dataplane.storage.partition_file import PARTITION_FILE
from springtide.wire.record_batch import ATTRIBUTE_CONTROL
from tests.checker.history import Batch, Function, Item, Key, Operation, Outcome
from tests.checker.values import decode_value

BATCHES_IN_A_DUMP = 2_000


def dump_replicas(directories: Mapping[int, Path], topic: str, *, now_ns: int) -> list[Operation]:
    """Every copy of the topic's records on these brokers' disks. directories: data directories by broker.

    A replica's log has its high watermark, below which it must equal the others'; what was set aside or put
    into quarantine has none. The brokers must have stopped. Raises OSError.
    """
    found: list[Operation] = []
    for broker_id, directory in sorted(directories.items()):
        name = f"broker-{broker_id}"
        offsets = read_checkpoint(PosixDisk(), str(directory), HIGH_WATERMARKS).offsets
        for folder, identity in _logs(directory):
            if identity["topic"] == topic:
                key = (topic, int(identity["partition"]))
                high_watermark = offsets.get((identity["topic_id"], key[1]), 0)
                files = sorted(folder.glob("*.log"))
                found += _dump(name, key, files, high_watermark=high_watermark, now_ns=now_ns)
        for folder, identity in _logs(directory / QUARANTINE):
            if identity["topic"] == topic:
                key = (topic, int(identity["partition"]))
                files = sorted(folder.glob("*.log"))
                process = f"{name} quarantine {folder.name[-80:]}"
                found += _dump(process, key, files, high_watermark=None, now_ns=now_ns)
        for description in sorted((directory / DIVERGENT).glob("**/*.json")):
            aside = json.loads(description.read_text(encoding="utf-8"))
            batches = description.with_suffix(".batches")
            if aside.get("topic") == topic and batches.exists():
                process = f"{name} divergent {description.stem[-80:]}"
                key = (topic, int(aside["partition"]))
                found += _dump(process, key, [batches], high_watermark=None, now_ns=now_ns)
    return found


def _logs(directory: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    if not directory.is_dir():
        return
    for folder in sorted(directory.iterdir()):
        identity = folder / PARTITION_FILE
        if identity.is_file():
            yield folder, json.loads(identity.read_text(encoding="utf-8"))


def _dump(
    process: str, key: Key, files: list[Path], *, high_watermark: int | None, now_ns: int
) -> Iterator[Operation]:
    """One operation for each so many batches: an operation is one line, and lines are bounded."""
    entries = itertools.chain.from_iterable(
        dump_segment(PosixDisk().open(str(file)), with_records=True) for file in files
    )
    while part := list(itertools.islice(entries, BATCHES_IN_A_DUMP)):
        items: list[Item] = []
        batches: list[Batch] = []
        for entry in part:
            header = entry.get("batch")
            if header is None:  # A bad end; what is missing behind it the checker finds.
                continue
            batches.append(
                Batch(
                    base_offset=header["base_offset"],
                    record_count=header["record_count"],
                    leader_epoch=header["leader_epoch"],
                    producer_id=header["producer_id"],
                    producer_epoch=header["producer_epoch"],
                    base_sequence=header["base_sequence"],
                )
            )
            if header["attributes"] & ATTRIBUTE_CONTROL:  # A transaction's marker: no client's value.
                continue
            items += [
                (record["offset"], decode_value(bytes(record["value"] or b"")))
                for record in entry.get("records", ())
            ]
        yield Operation(
            process=process,
            f=Function.DUMP,
            type=Outcome.OK,
            t_invoke_ns=now_ns,
            t_return_ns=now_ns,
            key=key,
            items=tuple(items),
            # A fragment begins in the middle of every producer's sequence.
            batches=() if high_watermark is None else tuple(batches),
            high_watermark=high_watermark,
        )
