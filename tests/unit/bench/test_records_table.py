"""The codec's benchmark: all sides handle the same records, and the table shows them."""

from __future__ import annotations

import pytest

from bench.records import CODECS, OURS, encode_aiokafka, make_case, measure_all, sides_of, table
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


def test_the_table_has_a_line_for_each_measurement() -> None:
    lines = measure_all(total_bytes=20_000, slices=1)
    assert all(line.rates[OURS] > 0 for line in lines)
    shown = table(lines).splitlines()
    assert len(shown) == 2 + len(lines)
    assert len({len(line) for line in shown}) == 1
