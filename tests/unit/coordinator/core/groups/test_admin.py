"""Operators describe, list and delete groups."""

from __future__ import annotations

import pytest

from coordinator.core.groups.requests import DescribedGroup, DescribedMember, Leaver, ListedGroup
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import RANGE, GroupDesk


@pytest.fixture
def desk() -> GroupDesk:
    return GroupDesk()


def test_a_group_is_described_as_it_stands(desk: GroupDesk) -> None:
    assert desk.describe() == DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, "g", "Dead")
    desk.form("a", statics={"s": "i"})
    a = DescribedMember("a", None, "client", "/10.0.0.1", RANGE[0].metadata, b"a")
    s = DescribedMember("s", "i", "client", "/10.0.0.1", RANGE[0].metadata, b"s")
    assert desk.describe() == DescribedGroup(ErrorCode.NONE, "g", "Stable", "consumer", "range", (a, s))
    desk.start_join("a")
    described = desk.describe()
    assert (described.state, described.protocol) == ("PreparingRebalance", "")
    assert [member.metadata for member in described.members] == [b"", b""]
    desk.leave(Leaver("a"), Leaver("s"))
    assert desk.describe() == DescribedGroup(ErrorCode.NONE, "g", "Empty", "consumer")


def test_an_assignment_that_is_not_committed_is_not_described(desk: GroupDesk) -> None:
    desk.start_join(new_id="a")
    desk.wait(3_000)
    desk.is_holding = True
    desk.start_sync("a", 1, {"a": b"1"})
    with pytest.raises(KeyError):
        desk.describe()
    desk.commit()
    assert desk.describe().members[0].assignment == b"1"


def test_groups_are_listed_by_state_and_type_in_any_case(desk: GroupDesk) -> None:
    desk.form("a")
    desk.commit_offsets(group_id="simple")
    desk.start_join(group_id="new")
    stable = ListedGroup("g", "consumer", "Stable", "classic")
    simple = ListedGroup("simple", "", "Empty", "classic")
    new = ListedGroup("new", "consumer", "PreparingRebalance", "classic")
    assert desk.listed().groups == (stable, new, simple)
    assert desk.listed(states=("stable", "EMPTY")).groups == (stable, simple)
    assert desk.listed(types=("Classic",), states=("PreparingRebalance",)).groups == (new,)
    assert desk.listed(types=("consumer", "share")).groups == ()


def test_a_group_that_is_stored_but_lives_nowhere_is_listed_and_described(desk: GroupDesk) -> None:
    desk.form("a")
    desk.leave(Leaver("a"))
    desk.fail_over()
    assert desk.listed().groups == (ListedGroup("g", "consumer", "Empty", "classic"),)
    assert desk.describe() == DescribedGroup(ErrorCode.NONE, "g", "Empty", "consumer")


def test_a_deleted_group_is_gone_with_its_offsets_after_a_failover_too(desk: GroupDesk) -> None:
    desk.form("a")
    desk.commit_offsets("a", 1)
    desk.commit_offsets(group_id="simple")
    assert desk.delete("g") == [ErrorCode.NON_EMPTY_GROUP]
    desk.leave(Leaver("a"))
    assert desk.delete("g", "simple", "nowhere", "g") == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    for _ in range(2):
        assert (desk.listed().groups, desk.fetch(), desk.fetch(group_id="simple")) == ((), {}, {})
        desk.fail_over()
    assert desk.form("b") == 1


def test_a_deletion_is_seen_and_told_once_it_is_committed_and_a_refused_one_never_was(
    desk: GroupDesk,
) -> None:
    desk.form("a")
    desk.commit_offsets("a", 1)
    desk.leave(Leaver("a"))
    desk.is_holding = True
    tokens = [desk.start_delete("g"), desk.start_delete("g")]
    assert not set(tokens) & desk.replies.keys()
    assert (desk.state, desk.fetch()) == ("Empty", {("t", 0): 7})
    desk.refuse()
    assert [desk.replies[token] for token in tokens] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    assert (desk.state, desk.fetch()) == ("Empty", {("t", 0): 7})


def test_a_group_begun_anew_repeats_no_generation_of_one_whose_deletion_is_refused(desk: GroupDesk) -> None:
    assert desk.form("a") == 1
    desk.is_holding = True
    desk.start_leave(Leaver("a"))
    desk.start_delete("g")
    token = desk.start_join(new_id="b")
    desk.refuse()
    desk.wait(3_000)
    assert desk.joined(token).generation_id == 3


def test_an_id_that_waits_to_join_does_not_outlive_its_group(desk: GroupDesk) -> None:
    desk.start_join(new_id="p", requires_member_id=True)
    assert desk.delete("g") == [ErrorCode.NONE]
    assert desk.joined(desk.start_join("p")).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(desk.timers) == 1  # the expiry's
