"""The APIs of transactions as bytes, before real machines."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.handlers.end_txn import BUMPS_SINCE
from springtide.levels import Level
from springtide.node.sharding import GROUPS_TOPIC, TRANSACTIONS_TOPIC, shard_of
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_shards import SHARDS, Coordinator

ID = "payments"
INIT, ADD, OFFSETS = ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN
END, DESCRIBE, LIST = ApiKey.END_TXN, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS
NOT_TRIED = ErrorCode.OPERATION_NOT_ATTEMPTED


Topics = dict[str, tuple[int, ...]]


def versions(api: ApiKey) -> range:
    return range(APIS[api].version_min, APIS[api].version_max + 1)


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator()
    coordinator.has_topic("orders", 2)
    return coordinator


def init(coordinator: Coordinator, version: int = 5, **fields: Any) -> Any:
    asked = {
        "transactional_id": ID,
        "transaction_timeout_ms": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    return coordinator.ask(INIT, version, **(asked | fields))


def owner(coordinator: Coordinator) -> dict[str, int]:
    """Return the producer id and epoch of a new owner."""
    told = init(coordinator)
    assert told.error_code == ErrorCode.NONE
    return {"producer_id": told.producer_id, "producer_epoch": told.producer_epoch}


def of_producer(producer: dict[str, int], topics: Topics) -> dict[str, Any]:
    named = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
    fields = {"transactional_id": ID, **producer, "topics": named}
    return {f"v3_and_below_{name}": value for name, value in fields.items()}


def add(
    coordinator: Coordinator, producer: dict[str, int], topics: Topics, version: int = 3
) -> list[tuple[str, int, ErrorCode]]:
    answer = coordinator.ask(ADD, version, **of_producer(producer, topics))
    return told(answer.results_by_topic_v3_and_below)


def told(topics: Any) -> list[tuple[str, int, ErrorCode]]:
    return [
        (topic.name, one.partition_index, ErrorCode(one.partition_error_code))
        for topic in topics
        for one in topic.results_by_partition
    ]


def add_as_member(
    coordinator: Coordinator,
    *asked: tuple[dict[str, int], bool, Topics],
    version: int = 5,
) -> list[list[tuple[str, int, ErrorCode]]]:
    transactions = [
        {
            "transactional_id": ID,
            **producer,
            "verify_only": verify_only,
            "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        }
        for producer, verify_only, topics in asked
    ]
    answer = coordinator.ask(ADD, version, transactions=transactions)
    assert answer.error_code == ErrorCode.NONE
    return [told(one.topic_results) for one in answer.results_by_transaction]


def end(
    coordinator: Coordinator, producer: dict[str, int], version: int = 5, *, committed: bool = True
) -> Any:
    return coordinator.ask(END, version, transactional_id=ID, **producer, committed=committed)


def described(coordinator: Coordinator, transactional_id: str = ID) -> Any:
    (state,) = coordinator.ask(DESCRIBE, 0, transactional_ids=[transactional_id]).transaction_states
    return state


@pytest.mark.parametrize("version", versions(INIT))
def test_each_version_gets_an_owner_and_fences_the_one_before(coordinator: Coordinator, version: int) -> None:
    first, second = init(coordinator, version), init(coordinator, version)
    assert (first.error_code, first.producer_id, first.producer_epoch) == (ErrorCode.NONE, 1000, 0)
    assert (second.error_code, second.producer_id, second.producer_epoch) == (ErrorCode.NONE, 1000, 1)


@pytest.mark.parametrize(
    ("version", "error"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)]
)
def test_a_fenced_producer_is_told_in_the_words_of_its_version(
    coordinator: Coordinator, version: int, error: ErrorCode
) -> None:
    fenced = owner(coordinator)
    owner(coordinator)
    owner(coordinator)
    assert init(coordinator, version, **fenced).error_code == error
    assert end(coordinator, fenced, 1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(coordinator, fenced, 2).error_code == ErrorCode.PRODUCER_FENCED
    assert add(coordinator, fenced, {"orders": (0,)}, 1) == [("orders", 0, ErrorCode.INVALID_PRODUCER_EPOCH)]
    assert add(coordinator, fenced, {"orders": (0,)}, 2) == [("orders", 0, ErrorCode.PRODUCER_FENCED)]


@pytest.mark.parametrize("version", [version for version in versions(END) if version < BUMPS_SINCE])
def test_an_end_by_a_connection_that_its_producer_has_left_closes_it(
    coordinator: Coordinator, version: int
) -> None:
    """FLINK-23854: a restored job ends a transaction over a connection that never asked for its id."""
    producer = owner(coordinator)
    ended = {"transactional_id": ID, **producer, "committed": True}
    coordinator.ask(ADD, 3, connection_number=2, **of_producer(producer, {"orders": (0,)}))
    assert coordinator.ask(END, version, connection_number=1, **ended) is None
    assert described(coordinator).transaction_state == "Ongoing"
    assert coordinator.ask(END, version, connection_number=3, **ended).error_code == ErrorCode.NONE


def test_without_a_fresh_producer_id_the_client_asks_again(coordinator: Coordinator) -> None:
    coordinator.producer_ids.count = 0
    assert init(coordinator).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("version", versions(INIT))
def test_a_producer_without_a_transactional_id_gets_one_of_its_own(
    coordinator: Coordinator, version: int
) -> None:
    answer = init(coordinator, version, transactional_id=None)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, 1000, 0)


@pytest.mark.parametrize("transactional_id", ["\0", "a\nb", "../..", "жук", "\N{ROCKET}", "x" * 32_767])
def test_any_text_may_be_an_id(coordinator: Coordinator, transactional_id: str) -> None:
    told = init(coordinator, 3, transactional_id=transactional_id)
    assert (told.error_code, told.producer_epoch) == (ErrorCode.NONE, 0)
    assert described(coordinator, transactional_id).transaction_state == "Empty"
    other = init(coordinator, 3, transactional_id=transactional_id[:-1] or "other")
    assert other.producer_id != told.producer_id


@pytest.mark.parametrize("transactional_id", ["", "x" * 40_000])
def test_an_id_of_no_or_too_many_characters_is_refused(
    coordinator: Coordinator, transactional_id: str
) -> None:
    assert init(coordinator, transactional_id=transactional_id).error_code == ErrorCode.INVALID_REQUEST


def test_below_its_level_a_cluster_has_no_transactions(coordinator: Coordinator) -> None:
    producer = owner(coordinator)
    coordinator.level = Level(1)
    assert init(coordinator).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert end(coordinator, producer).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert coordinator.ask(ADD, 5, transactions=[]).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_process_that_does_not_know_the_level_yet_is_no_coordinator(coordinator: Coordinator) -> None:
    """Any other word would be the client's last."""
    producer = owner(coordinator)
    coordinator.level, coordinator.is_view_complete = Level(1), False
    assert init(coordinator).error_code == ErrorCode.NOT_COORDINATOR
    assert end(coordinator, producer).error_code == ErrorCode.NOT_COORDINATOR
    assert coordinator.ask(ADD, 5, transactions=[]).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(4))
def test_a_producer_adds_partitions_and_ends_its_transaction(coordinator: Coordinator, version: int) -> None:
    producer = owner(coordinator)
    added = add(coordinator, producer, {"orders": (0, 1)}, version)
    assert added == [("orders", 0, ErrorCode.NONE), ("orders", 1, ErrorCode.NONE)]
    state = described(coordinator)
    assert (state.transaction_state, state.producer_id) == ("Ongoing", producer["producer_id"])
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("orders", (0, 1))]
    assert (state.client_id, state.client_host) == ("client", "10.0.0.1")
    assert end(coordinator, producer, version).error_code == ErrorCode.NONE
    assert described(coordinator).transaction_state == "PrepareCommit"


def test_beside_a_partition_that_can_not_be_added_none_is(coordinator: Coordinator) -> None:
    producer = owner(coordinator)
    added = add(coordinator, producer, {"orders": (0, 7), "gone": (1,)})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert added == [("orders", 0, NOT_TRIED), ("orders", 7, unknown), ("gone", 1, unknown)]
    assert described(coordinator).transaction_state == "Empty"


@pytest.mark.parametrize("topic", [GROUPS_TOPIC, TRANSACTIONS_TOPIC])
def test_a_coordinator_topic_is_no_part_of_a_producers_transaction(
    coordinator: Coordinator, topic: str
) -> None:
    assert add(coordinator, owner(coordinator), {topic: (0,)}) == [
        (topic, 0, ErrorCode.INVALID_TOPIC_EXCEPTION)
    ]


@pytest.mark.parametrize("version", [4, 5])
def test_members_add_and_verify_for_producers(coordinator: Coordinator, version: int) -> None:
    producer = owner(coordinator)
    orders: Topics = {"orders": (0,)}
    fine = [("orders", 0, ErrorCode.NONE)]
    absent = [[("orders", 0, ErrorCode.TRANSACTION_ABORTABLE)]]
    assert add_as_member(coordinator, (producer, True, orders), version=version) == absent
    assert add_as_member(coordinator, (producer, False, orders), version=version) == [fine]
    assert add_as_member(coordinator, (producer, True, orders), version=version) == [fine]
    group: Topics = {GROUPS_TOPIC: (3,)}
    assert add_as_member(coordinator, (producer, False, group), (producer, False, orders)) == [
        [(GROUPS_TOPIC, 3, ErrorCode.NONE)],
        fine,
    ]
    state: Topics = {TRANSACTIONS_TOPIC: (3,)}
    assert add_as_member(coordinator, (producer, False, state)) == [
        [(TRANSACTIONS_TOPIC, 3, ErrorCode.INVALID_TOPIC_EXCEPTION)]
    ]


@pytest.mark.parametrize("version", versions(OFFSETS))
def test_the_partition_of_a_groups_offsets_is_added(coordinator: Coordinator, version: int) -> None:
    producer = owner(coordinator)
    answer = coordinator.ask(OFFSETS, version, transactional_id=ID, **producer, group_id="billing")
    assert answer.error_code == ErrorCode.NONE
    (topic,) = described(coordinator).topics
    assert (topic.topic, topic.partitions) == (GROUPS_TOPIC, (shard_of("billing", SHARDS),))


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_gives_the_next_epoch_from_version_5_on(coordinator: Coordinator, committed: bool) -> None:
    producer = owner(coordinator)
    add_as_member(coordinator, (producer, False, {"orders": (0,)}))
    answer = end(coordinator, producer, committed=committed)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, 1000, 1)


def test_what_the_coordinators_log_refuses_is_tried_again_by_clients(coordinator: Coordinator) -> None:
    shard = shard_of(ID, SHARDS)
    for error, known in (
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ):
        coordinator.transactions.errors[shard] = error
        assert init(coordinator).error_code == known
        assert described(coordinator).error_code == known


def test_ids_are_listed_for_brokers_and_for_no_client(coordinator: Coordinator) -> None:
    owner(coordinator)
    assert coordinator.ask(LIST, 2, client_id="admin").transaction_states == ()
    answer = coordinator.ask(LIST, 2, client_id="springtide-broker-1")
    assert [(one.transactional_id, one.transaction_state) for one in answer.transaction_states] == [
        (ID, "Empty")
    ]
    asked = {"client_id": "springtide-broker-1", "state_filters": ["Ongoing", "Odd"]}
    answer = coordinator.ask(LIST, 2, **asked)
    assert (answer.transaction_states, answer.unknown_state_filters) == ((), ("Odd",))


def test_an_id_that_there_is_not_is_described_so(coordinator: Coordinator) -> None:
    assert described(coordinator, "other").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
