"""What a truncation wrote aside, read again."""

from __future__ import annotations

from collections.abc import Iterator

from dataplane.storage.disk import Disk
from dataplane.storage.divergent import FoundCopy
from dataplane.storage.health import CorruptLog
from dataplane.storage.scan import ScanStop, SegmentScan
from springtide.wire.record_batch import CorruptBatch
from springtide.wire.records import Record, iter_records


def read_copy(disk: Disk, found: FoundCopy) -> Iterator[Record]:
    """The records that the cut dropped, by offset: of the first batch those before the cut are left out.
    Raises CorruptLog, after the last good batch, if the copy is not what was written."""
    file = disk.open(found.path)
    try:
        scan = SegmentScan(file, next_offset=0, leader_epoch=-1)
        for position, header in scan:
            for record in iter_records(file.pread(header.size_bytes, position)):
                if record.offset >= found.range.first_offset:
                    yield record
        if scan.stop is not ScanStop.END or scan.size_bytes != found.size_bytes:
            raise CorruptLog(
                f"{found.path} has {scan.position} good bytes of the {found.size_bytes} that were written"
            )
    except CorruptBatch as error:
        raise CorruptLog(f"{found.path} byte {scan.position}: {error.reason}") from error
    finally:
        file.close()
