"""Rounds at leaders and followers: who decides one, and who begins anew."""

from __future__ import annotations

from dataplane.core.compaction.known import PlacedRound
from dataplane.core.compaction.rounds import CompactionOptions, Dirt, Round
from dataplane.core.effects import DATA_APPENDED, NO_EFFECTS, BackOff, CopyDivergent, Effects, Remark
from dataplane.core.results import LeaderAnswer, ReplicaOptions
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import LogMark
from springtide.wire.fetch_response import Compacted
from tests.kit.dataplane.replica import Bench, as_follower, leader_of, log_of, records_of

OPTIONS = CompactionOptions(0.5, 0, 2**63 - 1, delete_retention_ms=100)
DIRT = Dirt(end_offset=3, clean_bytes=0, dirty_bytes=300, oldest_dirty_ms=1)


def leading(compaction: CompactionOptions | None = OPTIONS, **state: object) -> Bench:
    """Broker 1 leads in leader epoch 2; four records are committed."""
    bench = Bench(log=log_of(1, 1, 1, 1), high_watermark=4, compaction=compaction)
    bench.apply(**{"leader_epoch": 2, **state})
    return bench


def decide(bench: Bench, dirt: Dirt = DIRT, *, agreed_ms: int = 1_000) -> Effects:
    return leader_of(bench).decide_round(dirt, agreed_ms=agreed_ms, now_ms=bench.now_ms, wall_ms=agreed_ms)


def test_a_leader_appends_the_round_that_its_log_needs_and_then_no_other_until_it_is_applied() -> None:
    bench = leading()
    assert decide(bench) == (DATA_APPENDED,)
    header = bench.log.batches[-1].header
    assert (header.base_offset, header.leader_epoch, header.is_control) == (4, 2, True)
    assert bench.log.rounds.last == Round(3, 1_000, 0, 0)
    more = DIRT._replace(end_offset=4)
    assert decide(bench, more) == NO_EFFECTS
    placed = bench.log.rounds.due(5)
    assert placed is not None
    bench.log.compact(placed)
    assert decide(bench) == NO_EFFECTS, "nothing is dirty below where the last one ends"
    assert decide(bench, more) == (DATA_APPENDED,)


def test_a_leader_decides_no_round_that_could_not_be_committed_or_that_nobody_wants() -> None:
    assert decide(leading(compaction=None)) == NO_EFFECTS
    assert decide(leading(isr=(1,), min_insync_replicas=2)) == NO_EFFECTS
    assert decide(leading(), DIRT._replace(end_offset=5)) == NO_EFFECTS, "above the high watermark"
    assert decide(leading(), DIRT._replace(clean_bytes=400)) == NO_EFFECTS


def test_a_leader_decides_no_round_beyond_the_last_stable_offset() -> None:
    """RP#12176: it is exclusive; there the first record of an open transaction went with those before."""
    bench = leading()
    bench.begin(7)
    bench.commit_all()
    assert decide(bench, DIRT._replace(end_offset=5)) == NO_EFFECTS, "the transaction may be aborted"
    bench.end(7)
    assert decide(bench, DIRT._replace(end_offset=5)) == NO_EFFECTS, "its marker is not committed"
    bench.commit_all()
    assert decide(bench, DIRT._replace(end_offset=5)) == (DATA_APPENDED,)


def test_a_tombstone_waits_for_the_replicas_that_fetch_and_not_for_one_that_is_silent() -> None:
    lag_ms_max = ReplicaOptions().lag_ms_max
    for silent_ms, floor in ((0, 2), (lag_ms_max, 2), (lag_ms_max + 1, 3)):
        bench = leading(isr=(1, 2))
        bench.follow(3, 2)
        bench.now_ms += silent_ms
        decide(bench)
        bench.follow(2, 5)
        placed = bench.log.rounds.due(bench.high_watermark)
        assert placed is not None
        bench.log.compact(placed)
        decide(bench, DIRT._replace(end_offset=4), agreed_ms=5_000)
        last = bench.log.rounds.last
        assert last is not None
        assert last.tombstone_floor == floor


def test_a_leader_tells_its_followers_what_is_gone_from_its_log() -> None:
    bench = leading()
    assert bench.fetch(2, 4)[0].compacted is None
    bench.log.rounds.on_pass(PlacedRound(3, Round(3, 0, 2, 0)), reaches=3)
    assert bench.fetch(2, 4)[0].compacted == Compacted(2, 3)


def test_a_leader_tells_readers_below_its_floor_as_well() -> None:
    bench = leading()
    assert bench.consume(0).compacted is None
    bench.log.rounds.on_pass(PlacedRound(3, Round(3, 0, 2, 0)), reaches=3)
    assert [bench.consume(offset).compacted for offset in (0, 1, 2)] == [
        Compacted(2, 3),
        Compacted(2, 3),
        None,
    ]


def following(*, high_watermark: int = 4, **state: object) -> Bench:
    """Broker 2 follows broker 1 in leader epoch 5, without a seat, with four records."""
    bench = Bench(2, log=log_of(1, 1, 1, 1), high_watermark=high_watermark)
    bench.apply(**{"leader_epoch": 5, "isr": (1, 3), **state})
    return bench


def told(floor: int, end: int = 9) -> LeaderAnswer:
    return LeaderAnswer(high_watermark=9, compacted=Compacted(floor, end))


def test_a_follower_without_a_seat_begins_anew_below_its_leaders_floor() -> None:
    bench = following()
    assert bench.fetched(told(4)) == NO_EFFECTS
    (remark,) = bench.fetched(told(5))
    assert isinstance(remark, Remark)
    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.high_watermark) == (0, 0, 0)
    fresh = records_of(log_of(1, 1, 1, 1, 1, 1))
    bench.fetched(LeaderAnswer(records=fresh, high_watermark=9, compacted=Compacted(5, 9)))
    assert bench.log.log_end_offset == 6, "an empty log takes what it is given"
    bench.fetched(told(5))
    assert bench.log.log_end_offset == 6


def test_what_is_not_known_to_be_committed_is_written_aside_before() -> None:
    bench = following(high_watermark=2)
    hold = bench.fetched(told(5))[-1]
    assert isinstance(hold, CopyDivergent)
    assert (hold.first_offset, hold.next_offset, hold.cut_offset) == (2, 4, 0)
    assert bench.log.log_end_offset == 4
    as_follower(bench.replica).on_divergent_copied(hold.hold_id, error=None, now_ms=0)
    assert bench.log.log_end_offset == 0


def test_a_follower_that_believes_to_have_a_seat_waits_to_hear_that_it_has_none() -> None:
    for state in ({"isr": (1, 2, 3)}, {"elr": (2,)}):
        bench = following(**state)
        (back_off,) = bench.fetched(told(5))
        assert isinstance(back_off, BackOff)
        assert bench.log.log_end_offset == 4


def test_a_log_that_was_copied_in_part_does_not_follow_an_unclean_leader_with_what_it_has() -> None:
    """Of a key only its newest record was left at the leader, and that one is lost."""
    bench = following()
    bench.fetched(told(0, end=9))
    bench.apply(leader=3, leader_epoch=6, partition_epoch=2, isr=(3,), unclean_leader_epoch=6)
    hold = bench.fetched(LeaderAnswer(high_watermark=3))[-1]
    assert isinstance(hold, CopyDivergent)
    assert (hold.first_offset, hold.cut_offset) == (0, 0)
    as_follower(bench.replica).on_divergent_copied(hold.hold_id, error=None, now_ms=0)
    assert bench.log.log_end_offset == 0
    assert bench.log.rounds.whole_from == 0


def test_logs_are_not_compared_where_another_round_may_have_gone_over_one_of_them() -> None:
    follower = following()
    mark = as_follower(follower.replica).log_mark()
    assert mark is not None and len(mark.batches) == 3
    follower.fetched(told(0, end=3))
    assert as_follower(follower.replica).log_mark() == LogMark(1, -1, mark.batches[2:])
    leader = leading()
    other = mark._replace(batches=((1, 1), *mark.batches[1:]))
    assert leader.fetch(2, 4, mark=other)[0].diverging is not None
    leader.log.rounds.on_told(Compacted(0, 2), log_start_offset=0, log_end_offset=4)
    result, _ = leader.fetch(2, 4, mark=other)
    assert (result.error, result.diverging) == (ErrorCode.NONE, None)
    other = mark._replace(batches=(*mark.batches[:2], (3, 1)))
    assert leader.fetch(2, 4, mark=other)[0].diverging is not None, "no round has come so far"
