"""What `pipeline plan` shows people of a proposal."""

from __future__ import annotations

from pipeline.plan.goal import Found, Goal
from pipeline.plan.load import Level
from pipeline.plan.placement import Limits, Move, Partition

from pipeline.plan.report import HistoryRead, Proposal, lines_of


def test_loads_and_moves_are_tables_the_largest_copy_first() -> None:
    moves = (
        Move(Partition("orders", "t", 1, 1, (1, 2), (1, 2)), (2, 1), 0),
        Move(Partition("orders", "t", 0, 1, (1, 2), (1, 2)), (3, 2), 3 * 2**29),
    )
    before = (Level("disk", 2.0**30, 3.0 * 2**29, 1), Level("bytes_in", 2048.0, 4096.0, 10))
    after = (Level("disk", 2.0**30, 2.0**30, 2), Level("bytes_in", 2048.0, 4096.0, 10))
    found = Found(moves, before, after, 3 * 2**29, ())
    history = HistoryRead(0, None, None, 60, "mean")
    lines = lines_of(Proposal("prod", history, Goal(resources=(0,)), Limits(), found, None, 0, (), {}))
    begin = lines.index("LOAD                     MEAN  HIGHEST/MEAN  BROKER  AFTERWARDS  BROKER")
    assert lines[begin + 1 : begin + 8] == (
        "disk                  1.0 GiB          1.50       1        1.00       2",
        "bytes_in (no goal)  2.0 KiB/s          2.00      10        2.00      10",
        "",
        "PARTITION  FROM  TO        COPIES",
        "orders-0   1,2   3,2      1.5 GiB",
        "orders-1   1,2   2,1  leader only",
        "",
    )
