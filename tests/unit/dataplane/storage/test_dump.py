"""A dump of a segment says where it stopped and what it could not read."""

from __future__ import annotations

from dataplane.storage.dump import dump_segment
from springtide.wire.record_batch import decode_header
from springtide.wire.records import seal_batch
from tests.kit.dataplane.storage import batch
from tests.kit.memory.disk import MemoryDisk


def test_a_dump_goes_on_behind_records_that_are_none_and_ends_where_no_batch_is() -> None:
    nonsense = seal_batch(decode_header(batch(1)), b"\xff" * (len(batch(1)) - 61))
    disk = MemoryDisk()
    file = disk.open("/file", create=True)
    file.pwrite(batch(0) + nonsense + b"torn", 0)
    first, second, end = dump_segment(file, with_records=True)
    assert (first["batch"]["base_offset"], first["records"][0]["value"]) == (0, b"v")
    assert "records" not in second
    assert second["records_error"]
    good = len(batch(0)) + len(nonsense)
    assert end == {"stopped": {"reason": "torn", "position": good, "bytes_left": 4}}
