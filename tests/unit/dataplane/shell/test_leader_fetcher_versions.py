"""The version in which a follower fetches from a leader of another release: by connection."""

from __future__ import annotations

import pytest

from springtide.wire.apis import REPLICA_FETCH_VERSIONS
from tests.kit.dataplane.fetching import Bench, data, following, on_a_follower
from tests.kit.dataplane.node import batch_of


@pytest.mark.parametrize(
    ("spoken", "version"), [((4, 18), 17), ((4, 17), 17), ((4, 16), 16), ((15, 15), 15), ((4, 30), 17)]
)
def test_a_follower_fetches_in_the_highest_version_that_both_speak(
    spoken: tuple[int, int], version: int
) -> None:
    async def test(bench: Bench) -> None:
        bench.net.spoken = spoken
        await bench.apply(following(), full=True)
        end = bench.end(9002)
        assert end.api_version == version
        await end.answer(data(batch_of(3, leader_epoch=1)))
        assert bench.node.log().log_end_offset == 3
        await end.answer(data(high_watermark=3))
        assert (bench.node.hosted().replica.high_watermark, end.api_version) == (3, version)

    on_a_follower(test)


def test_a_leader_that_went_back_to_the_release_before_is_asked_for_its_versions_anew() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)
        assert bench.end(9002).api_version == REPLICA_FETCH_VERSIONS[-1]
        bench.net.spoken = (4, 16)
        await bench.restart(2, port=9002)
        assert len(bench.net.ends) == 2
        assert bench.end(9002).api_version == 16
        bench.net.spoken = (4, 18)
        await bench.restart(2, port=9002, epoch=12)
        assert bench.end(9002).api_version == 17

    on_a_follower(test)


@pytest.mark.parametrize("spoken", [(4, 14), (18, 20)])
def test_a_leader_without_a_common_version_is_named_with_both_and_taken_when_it_has_one(
    spoken: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(bench: Bench) -> None:
        bench.net.spoken = spoken
        await bench.apply(following(), full=True)
        text = (
            f"broker 2 can't be followed: it speaks Fetch {spoken[0]}..{spoken[1]}, this one 15..17: their "
            "releases are too far apart, upgrade by one at a time"
        )
        assert bench.fetchers.not_understood == {2: text}
        assert bench.end(9002).is_closed
        assert bench.end(9002).requests == []
        await bench.restart(2, port=9002)  # in the same release
        said = [record for record in caplog.records if "leader_not_understood" in record.message]
        assert len(said) == 1
        bench.net.spoken = (4, 17)
        await bench.restart(2, port=9002, epoch=12)
        await bench.end(9002).answer(data())
        assert bench.fetchers.not_understood == {}

    on_a_follower(test)


def test_a_rule_of_a_later_release_is_not_skipped() -> None:
    """A leader tells it only to brokers that know it; one that does not takes none of the answer."""

    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)
        end = bench.end(9002)
        end.tags = {10_100: b"rule"}
        await end.answer(data(batch_of(3, leader_epoch=1)))
        assert bench.node.log().log_end_offset == 0
        assert end.is_closed
        assert "a rule of a later release (tag 10100)" in bench.fetchers.not_understood[2]

    on_a_follower(test)


def test_a_hint_of_a_later_release_is_skipped() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)
        end = bench.end(9002)
        end.tags = {10_050: b"hint"}
        await end.answer(data(batch_of(3, leader_epoch=1)))
        assert bench.node.log().log_end_offset == 3
        assert bench.fetchers.not_understood == {}

    on_a_follower(test)
