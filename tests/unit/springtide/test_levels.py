from __future__ import annotations

import msgspec

from springtide.levels import (
    KEPT_DELETED_TOPICS,
    NEWEST,
    RELEASES,
    SUPPORTED,
    UNTOLD,
    Level,
    LevelRange,
    allows,
)


def test_a_release_runs_at_its_own_level_and_at_the_one_before() -> None:
    assert LevelRange(Level(1), Level(3)) == SUPPORTED
    assert [SUPPORTED.has(Level(level)) for level in range(5)] == [False, True, True, True, False]
    assert RELEASES[SUPPORTED.lowest] != RELEASES[NEWEST] == RELEASES[Level(SUPPORTED.lowest + 1)]
    assert list(RELEASES) == list(range(NEWEST + 1)), "each level has the release that began it"


def test_a_process_that_tells_no_range_is_of_release_0_1() -> None:
    assert msgspec.json.decode(b"{}", type=LevelRange) == LevelRange(UNTOLD, UNTOLD)


def test_a_feature_is_written_from_its_level_on() -> None:
    since = KEPT_DELETED_TOPICS.since
    assert [allows(Level(level), KEPT_DELETED_TOPICS) for level in (since - 1, since, since + 1)] == [
        False,
        True,
        True,
    ]
