"""What is parked, what coordinators are asked, and what their answers do."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import cast

import pytest

from dataplane.core import verifications
from dataplane.core.verifications import (
    NO_OWNER,
    PARKED_BYTES_MAX,
    PARKED_MAX,
    PARKED_MS_MAX,
    RETRIED_MS_MAX,
    RETRY_MS,
    SEND_AGAIN,
    ClaimedPlace,
    ClaimedTransaction,
    ClaimQuestion,
    CoordinatorAnswer,
    ReleasedBatches,
    Verifications,
    producer_error,
)
from springtide.wire.errors import ErrorCode

NONE = ErrorCode.NONE
OWNER = 1001
A = ClaimedTransaction("a", 7, 0, True)
B = ClaimedTransaction("b", 8, 0, False)
ORDERS = ClaimedPlace("orders", 0, "O")
BILLS = ClaimedPlace("bills", 3, "B")


class Parking:
    """Verifications, with a coordinator that owns every id unless `owners` says otherwise."""

    def __init__(self) -> None:
        self.owners: dict[str, int] = {}
        self.core = Verifications(lambda one: self.owners.get(one, OWNER))

    def park(
        self,
        batch: str,
        transaction: ClaimedTransaction = A,
        place: ClaimedPlace = ORDERS,
        *,
        guard: object = "g",
        size_bytes: int = 100,
        expires_ms: int = 30_000,
        now_ms: int = 0,
    ) -> list[tuple[object, ...]]:
        released = self.core.park(
            transaction,
            place,
            guard,
            batch,
            size_bytes=size_bytes,
            expires_ms=expires_ms,
            now_ms=now_ms,
        )
        return seen(released)

    def answer(
        self, questions: tuple[ClaimQuestion, ...], answers: Mapping[str, CoordinatorAnswer], now_ms: int = 0
    ) -> list[tuple[object, ...]]:
        return seen(self.core.on_answers(questions, answers, now_ms=now_ms))


def seen(released: tuple[ReleasedBatches, ...]) -> list[tuple[object, ...]]:
    return [(*one.batches, one.guard, one.error) for one in released]


def says(error: ErrorCode, *places: ClaimedPlace) -> CoordinatorAnswer:
    return CoordinatorAnswer(
        partitions={(place.topic, place.partition): error for place in places or (ORDERS, BILLS)}
    )


@pytest.fixture
def parking() -> Parking:
    return Parking()


def test_a_batch_is_asked_about_and_released_with_its_guard(parking: Parking) -> None:
    assert parking.park("1") == []
    assert parking.core.due_owners() == (OWNER,)
    questions = parking.core.take(OWNER)
    assert questions == (ClaimQuestion(A, (ORDERS,)),)
    assert parking.core.due_owners() == ()
    assert parking.core.take(OWNER) == ()
    assert (parking.core.parked, parking.core.parked_bytes) == (1, 100)
    assert parking.answer(questions, {"a": says(NONE)}) == [("1", "g", NONE)]
    assert (parking.core.parked, parking.core.parked_bytes) == (0, 0)


def test_one_request_asks_about_all_transactions_and_partitions_of_a_turn(parking: Parking) -> None:
    parking.park("1")
    parking.park("2", B)
    parking.park("3", A, BILLS)
    questions = parking.core.take(OWNER)
    assert questions == (ClaimQuestion(A, (ORDERS, BILLS)), ClaimQuestion(B, (ORDERS,)))
    fenced = CoordinatorAnswer(ErrorCode.PRODUCER_FENCED)
    assert parking.answer(questions, {"a": says(NONE), "b": fenced}) == [
        ("1", "g", NONE),
        ("3", "g", NONE),
        ("2", "g", ErrorCode.PRODUCER_FENCED),
    ]


def test_each_coordinator_is_asked_about_its_own(parking: Parking) -> None:
    parking.owners = {"b": 1002}
    parking.park("1")
    parking.park("2", B)
    assert parking.core.due_owners() == (OWNER, 1002)
    assert parking.core.take(1002) == (ClaimQuestion(B, (ORDERS,)),)
    assert parking.core.take(OWNER) == (ClaimQuestion(A, (ORDERS,)),)


def test_later_batches_of_a_producer_wait_behind_the_first_and_share_its_fate(parking: Parking) -> None:
    parking.park("1")
    questions = parking.core.take(OWNER)
    parking.park("2", now_ms=1)
    parking.park("3", now_ms=2)
    assert parking.core.due_owners() == ()
    refused = ErrorCode.INVALID_TXN_STATE
    assert parking.answer(questions, {"a": says(refused)}) == [("1", "2", "3", "g", refused)]


def test_a_partition_that_comes_while_one_is_asked_about_is_asked_about_next(parking: Parking) -> None:
    parking.park("1")
    first = parking.core.take(OWNER)
    parking.park("2", A, BILLS)
    assert parking.core.due_owners() == ()
    assert parking.answer(first, {"a": says(NONE)}) == [("1", "g", NONE)]  # of BILLS nothing was asked
    second = parking.core.take(OWNER)
    assert second == (ClaimQuestion(A, (BILLS,)),)
    assert parking.answer(second, {"a": says(NONE)}) == [("2", "g", NONE)]


def test_one_question_about_an_id_is_on_its_way_at_a_time(parking: Parking) -> None:
    parking.park("1")
    newer = A._replace(producer_epoch=1)
    parking.park("2", newer)
    first = parking.core.take(OWNER)
    assert first == (ClaimQuestion(A, (ORDERS,)),)
    assert parking.core.take(OWNER) == ()
    fenced = ErrorCode.PRODUCER_FENCED
    assert parking.answer(first, {"a": CoordinatorAnswer(fenced)}) == [("1", "g", fenced)]
    assert parking.core.take(OWNER) == (ClaimQuestion(newer, (ORDERS,)),)


def test_an_answer_does_not_count_for_a_later_queue_at_the_same_place(parking: Parking) -> None:
    """Version 1: the transaction that the answer is about may have ended, and its epoch goes on."""
    parking.park("1", expires_ms=500)
    first = parking.core.take(OWNER)
    assert seen(parking.core.on_time(500)) == [("1", "g", SEND_AGAIN)]
    parking.park("2", now_ms=600)
    assert parking.answer(first, {"a": says(NONE)}, 700) == []
    second = parking.core.take(OWNER)
    assert parking.answer(second, {"a": says(NONE)}, 700) == [("2", "g", NONE)]


def test_another_guard_ends_the_older_queue(parking: Parking) -> None:
    parking.park("1")
    parking.park("2")
    first = parking.core.take(OWNER)
    assert parking.park("3", guard="h") == [("1", "2", "g", SEND_AGAIN)]
    assert parking.answer(first, {"a": says(NONE)}) == []
    second = parking.core.take(OWNER)
    assert parking.answer(second, {"a": says(NONE)}) == [("3", "h", NONE)]
    assert parking.core.parked == 0


@pytest.mark.parametrize(
    "answers",
    [
        {"a": says(ErrorCode.CONCURRENT_TRANSACTIONS)},
        {"a": CoordinatorAnswer(ErrorCode.NOT_COORDINATOR)},
        {"a": says(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)},
        {"a": CoordinatorAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)},
        {"a": says(NONE, BILLS)},  # not of what was asked
        {},
    ],
)
def test_what_may_pass_is_asked_again_for_a_while_and_then_told(
    parking: Parking, answers: Mapping[str, CoordinatorAnswer]
) -> None:
    parking.park("1")
    now_ms, asked_ms = 0, []
    told: list[tuple[object, ...]] = []
    while not told:
        questions = parking.core.take(OWNER)
        assert questions
        asked_ms.append(now_ms)
        told = parking.answer(questions, answers, now_ms)
        if not told:
            assert parking.core.due_owners() == ()
            assert parking.core.next_ms is not None
            now_ms = parking.core.next_ms
            assert parking.core.on_time(now_ms) == ()
    assert told == [("1", "g", SEND_AGAIN)]
    assert asked_ms[:4] == [0, RETRY_MS, 3 * RETRY_MS, 7 * RETRY_MS]
    assert RETRIED_MS_MAX <= now_ms <= RETRIED_MS_MAX + verifications.RETRY_MS_MAX
    assert len(asked_ms) < 12


def test_beside_a_partition_that_is_refused_the_others_are_asked_about_again(parking: Parking) -> None:
    parking.park("1")
    parking.park("2", A, BILLS)
    questions = parking.core.take(OWNER)
    refused, untried = ErrorCode.INVALID_TXN_STATE, ErrorCode.OPERATION_NOT_ATTEMPTED
    said = CoordinatorAnswer(partitions={("orders", 0): refused, ("bills", 3): untried})
    assert parking.answer(questions, {"a": said}) == [("1", "g", refused)]
    parking.core.on_time(RETRY_MS)
    assert parking.core.take(OWNER) == (ClaimQuestion(A, (BILLS,)),)


def test_what_has_passed_is_appended(parking: Parking) -> None:
    parking.park("1")
    questions = parking.core.take(OWNER)
    parking.answer(questions, {"a": says(ErrorCode.CONCURRENT_TRANSACTIONS)}, 5)
    parking.core.on_time(5 + RETRY_MS)
    questions = parking.core.take(OWNER)
    assert parking.answer(questions, {"a": says(NONE)}, 30) == [("1", "g", NONE)]


def test_without_a_coordinator_a_batch_waits_a_while_for_one(parking: Parking) -> None:
    parking.owners = {"a": NO_OWNER}
    assert parking.park("1") == []
    assert parking.core.due_owners() == ()
    parking.owners = {}
    assert parking.core.on_time(RETRY_MS) == ()
    assert parking.core.due_owners() == (OWNER,)


def test_without_any_coordinator_the_client_is_told_to_send_again(parking: Parking) -> None:
    parking.owners = {"a": NO_OWNER}
    parking.park("1")
    told: list[tuple[object, ...]] = []
    while not told:
        assert parking.core.next_ms is not None
        told = seen(parking.core.on_time(parking.core.next_ms))
    assert told == [("1", "g", SEND_AGAIN)]
    assert parking.core.parked == 0


def test_a_queue_ends_with_its_first_deadline_as_a_whole(parking: Parking) -> None:
    parking.park("1", expires_ms=900)
    parking.park("2", expires_ms=400)
    parking.park("3", B, expires_ms=10**9)
    assert parking.core.on_time(399) == ()
    assert seen(parking.core.on_time(400)) == [("1", "2", "g", SEND_AGAIN)]
    assert parking.core.on_time(PARKED_MS_MAX - 1) == ()
    assert seen(parking.core.on_time(PARKED_MS_MAX)) == [("3", "g", SEND_AGAIN)]
    assert parking.core.next_ms is None


def test_parked_batches_are_bounded_in_count(parking: Parking) -> None:
    for number in range(PARKED_MAX):
        assert parking.park(str(number), size_bytes=1) == []
    assert parking.park("more", B, size_bytes=1) == [("more", "g", SEND_AGAIN)]
    assert parking.core.parked == PARKED_MAX


def test_parked_batches_are_bounded_in_bytes(parking: Parking) -> None:
    assert parking.park("1", size_bytes=PARKED_BYTES_MAX) == []
    assert parking.park("2", B, size_bytes=1) == [("2", "g", SEND_AGAIN)]
    parking.answer(parking.core.take(OWNER), {"a": says(NONE)})
    assert parking.park("2", B, size_bytes=1) == []


def test_a_request_is_bounded(parking: Parking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifications, "TRANSACTIONS_PER_REQUEST", 2)
    for number in range(3):
        parking.park(str(number), ClaimedTransaction(f"id{number}", number, 0, True))
    assert len(parking.core.take(OWNER)) == 2
    assert len(parking.core.take(OWNER)) == 1
    monkeypatch.setattr(verifications, "ID_CHARS_PER_REQUEST", 10)
    for number in range(2):
        parking.park(str(number), ClaimedTransaction("x" * 11 + str(number), number, 0, True))
    assert len(parking.core.take(OWNER)) == 1


def test_timers_of_what_was_answered_are_swept_out(parking: Parking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifications, "TIMERS_STALE_MAX", 10)
    for number in range(100):
        parking.park(str(number))
        parking.answer(parking.core.take(OWNER), {"a": says(NONE)})
    assert len(parking.core._timers) <= 12


def test_every_batch_is_released_exactly_once_and_each_producer_in_order() -> None:
    """A long random life: parks, answers of all kinds, silences, owners that come and go, deadlines."""
    rng = random.Random(7)
    parking = Parking()
    parked: dict[tuple[ClaimedTransaction, ClaimedPlace], list[int]] = {}
    released: dict[tuple[ClaimedTransaction, ClaimedPlace], list[int]] = {}
    flights: list[tuple[ClaimQuestion, ...]] = []
    now_ms = 0

    def note(all_released: tuple[ReleasedBatches, ...]) -> None:
        for one in all_released:
            for batch in cast(tuple[tuple[ClaimedTransaction, ClaimedPlace, int], ...], one.batches):
                released.setdefault(batch[:2], []).append(batch[2])

    for number in range(5_000):
        now_ms += rng.randrange(20)
        note(parking.core.on_time(now_ms))
        transaction = ClaimedTransaction(rng.choice("abc"), 1, rng.randrange(2), rng.random() < 0.5)
        place = rng.choice((ORDERS, BILLS))
        parked.setdefault((transaction, place), []).append(number)
        note(
            parking.core.park(
                transaction,
                place,
                rng.choice("gh") if rng.random() < 0.1 else "g",
                (transaction, place, number),
                size_bytes=10,
                expires_ms=now_ms + rng.randrange(1, 2_000),
                now_ms=now_ms,
            )
        )
        if rng.random() < 0.05:
            parking.owners = {one: rng.choice((NO_OWNER, 1001, 1002)) for one in "abc"}
        for owner in parking.core.due_owners():
            if questions := parking.core.take(owner):
                assert len({one.transaction.transactional_id for one in questions}) == len(questions)
                flights.append(questions)
        while flights and rng.random() < 0.5:
            questions = flights.pop(rng.randrange(len(flights)))
            error = rng.choice((NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE))
            answers = {one.transaction.transactional_id: says(error) for one in questions}
            note(parking.core.on_answers(questions, answers if rng.random() < 0.9 else {}, now_ms=now_ms))
    while (next_ms := parking.core.next_ms) is not None:
        note(parking.core.on_time(next_ms))
    assert released == parked
    assert (parking.core.parked, parking.core.parked_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("error", "version", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 9, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 12, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_TXN_STATE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_producers_are_told_errors_that_their_version_knows(
    error: ErrorCode, version: int, told: ErrorCode
) -> None:
    assert producer_error(error, version) is told
