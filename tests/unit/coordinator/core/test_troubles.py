"""What a coordinator tells the controller to alarm an operator by."""

from __future__ import annotations

from coordinator.core.groups.consumer.state import ConsumerGroupState
from coordinator.core.groups.figures import GroupFigures
from coordinator.core.lag_watch import FAST, TotalLag
from coordinator.core.troubles import OFFSETS_PENDING_MS, UNSETTLED_MS, Troubles
from springtide.contract.groups import GROUP_ID_CHARS_MAX, TROUBLES_TOLD_MAX


def unsettled(group_id: str, ms: int = UNSETTLED_MS) -> GroupFigures:
    return GroupFigures(group_id, 1, {}, unsettled_ms=ms)


def test_a_group_is_told_of_once_it_has_not_settled_for_ten_minutes() -> None:
    troubles = Troubles()
    troubles.see([unsettled("g", UNSETTLED_MS - 1), GroupFigures("calm", 1, {})], {})
    assert not troubles.found
    troubles.see([unsettled("g")], {})
    told = troubles.found[0]
    assert (told.group_id, told.code) == ("g", "unsettled")
    assert told.detail.startswith(
        "group g does not settle: for 10 minutes it has not been stable for one minute"
    )


def test_a_group_is_told_of_once_offsets_of_a_transaction_are_pending_for_a_quarter_of_an_hour() -> None:
    troubles = Troubles()
    troubles.see([GroupFigures("g", 0, {}, pending_ms=OFFSETS_PENDING_MS - 1)], {})
    assert not troubles.found
    troubles.see([GroupFigures("g", 0, {}, pending_ms=OFFSETS_PENDING_MS)], {})
    (told,) = troubles.found
    assert (told.group_id, told.code) == ("g", "offsets_pending")
    assert "has not ended for 15 minutes" in told.detail


def test_a_group_whose_target_could_not_be_made_is_told_of() -> None:
    troubles = Troubles()
    troubles.see([GroupFigures("g", 2, {}, lacks_target=True)], {})
    assert [(told.group_id, told.code) for told in troubles.found] == [("g", "not_assigned")]


def test_growing_lag_is_told_with_its_figures() -> None:
    troubles = Troubles()
    for number in range(FAST.looks * (FAST.periods + 1)):
        troubles.see([], {"g": TotalLag(100 * number, 150 * number)})
    (told,) = troubles.found
    assert (told.group_id, told.code) == ("g", "lag_grows")
    assert "its lag has grown from 0 to 700 records" in told.detail
    for _ in range(FAST.looks):
        troubles.see([], {"g": TotalLag(0, 2_000)})
    assert not troubles.found


def test_troubles_are_bounded() -> None:
    troubles = Troubles()
    many = [unsettled(f"g{number:03}") for number in range(TROUBLES_TOLD_MAX + 10)]
    many[0] = unsettled("x" * GROUP_ID_CHARS_MAX)
    troubles.see([unsettled("x" * (GROUP_ID_CHARS_MAX + 1)), *many], {})
    assert [told.group_id for told in troubles.found] == [
        group.group_id for group in many[:TROUBLES_TOLD_MAX]
    ]


def test_members_of_a_group_of_the_consumer_protocol_go_on_reading_while_it_does_not_settle() -> None:
    troubles = Troubles()
    figures = GroupFigures("g", 2, {}, unsettled_ms=UNSETTLED_MS, state=ConsumerGroupState.RECONCILING)
    troubles.see([figures], {})
    (told,) = troubles.found
    assert (told.group_id, told.code) == ("g", "unsettled")
    assert "are read by no member" in told.detail
