"""Each count of the tally on a small history, and its edges in time."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from tests.faults.jepsen2013.tally import tally
from tests.kit.jepsen import (
    HEALED,
    SECOND,
    course,
    final_read,
    seen,
    send,
    value_of,
    writable_again,
)

EVERYBODY = [1, 2, 3, 4, 5]


def test_lost_is_what_was_acknowledged_and_not_read_and_it_is_named() -> None:
    counted = tally(
        [
            send(0, 0, at=1, until=1.1, offset=0),
            send(1, 1, at=1, until=1.1, offset=0),
            send(2, 2, at=1, until=9, error="REQUEST_TIMED_OUT"),
            final_read(0, (0, value_of(0, 0))),
            final_read(2, (0, value_of(2, 2))),
        ],
        course(),
    )
    assert (counted.total, counted.acked, counted.read) == (3, 2, 2)
    assert [str(write) for write in counted.lost] == ["1 at offset 0 of partition 1"]


def test_only_the_final_read_counts() -> None:
    earlier = msgspec.structs.replace(final_read(0, (0, value_of(0, 0))), final=False)
    counted = tally([send(0, 0, at=1, until=1.1, offset=0), earlier], course())
    assert (counted.read, len(counted.lost)) == (0, 1)


def test_an_integer_that_is_read_at_two_offsets_is_one_that_was_read_twice() -> None:
    read = final_read(2, (0, value_of(2, 2)), (7, value_of(2, 2)))
    counted = tally([send(2, 2, at=1, until=2, offset=7), read], course())
    assert (counted.read, counted.twice, counted.lost) == (1, 1, ())


def test_what_was_sent_after_the_cut_and_acknowledged_before_the_next_leader_was_acknowledged_alone() -> None:
    sends = [
        send(0, 0, at=9.9, until=12, offset=0),  # was on its way at the cut: its copies may be, too
        send(5, 0, at=10, until=16, offset=1),
        send(6, 1, at=19, until=25, offset=1),
        send(10, 0, at=24, until=25.1, offset=2),  # perhaps by the next leader
        send(11, 0, at=25.5, until=26.5, offset=3),
        send(7, 2, at=16, until=16.1, offset=1),  # of a healthy partition
    ]
    assert [write.integer for write in tally(sends, course()).alone] == [5, 6]


def test_a_write_that_waited_for_the_next_leader_was_not_acknowledged_alone() -> None:
    sends = [
        send(0, 0, at=12, until=27, offset=0),
        send(5, 0, at=24.9, until=25.1, offset=1),
        send(6, 1, at=12, until=24, offset=0),
    ]
    counted = tally(sends, course())
    assert counted.outlasted == 2
    assert [write.integer for write in counted.alone] == [6]


def test_a_partition_is_writable_from_the_first_acknowledgement_of_a_send_since_the_healing() -> None:
    sends = [
        *writable_again(),
        send(0, 0, at=HEALED - 1, until=HEALED + 0.5, offset=5),  # began before
        send(5, 0, at=HEALED + 0.2, until=HEALED + 1.5, offset=6),
    ]
    counted = tally(sends, course())
    assert counted.writable_seconds == {0: 1.5, 1: 2.0, 2: 2.0, 3: 2.0, 4: 2.0}
    assert counted.writable_seconds_max == 2.0


def test_leading_again_after_the_healing_is_no_part_of_the_isolation() -> None:
    again = course(seen(50, [1, 1, 2, 3, 4], [EVERYBODY] * 5))
    assert again.last_led_ns(0) == 25 * SECOND


def test_a_leader_that_kept_a_follower_was_never_alone() -> None:
    followed = seen(15, [1, 1, 2, 3, 4], [[1, 2], [1, 3], *[EVERYBODY] * 3])
    kept = replace(course(), seen=(followed,))
    assert kept.alone_ns is None
