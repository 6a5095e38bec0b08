"""The codec's benchmark: all sides handle the same records, and the table shows them."""

from __future__ import annotations

import pytest

from bench.records import CODECS, encode_aiokafka, make_case, sides_of
from springtide.wire.compression import Compression
from springtide.wire.records import iter_records


@pytest.mark.parametrize("compression", CODECS)
def test_every_side_handles_every_record(compression: Compression) -> None:
    case = make_case(100, compression, total_bytes=40_000)
    for sides in sides_of(case).values():
        assert {side() for side in sides.values()} == {case.rows.num_rows}
    batches = encode_aiokafka(case.rows, case.options)
    theirs = [record.value for batch in batches for record in iter_records(batch)]
    assert theirs == case.rows.column("value").to_pylist()
