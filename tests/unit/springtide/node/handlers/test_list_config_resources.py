"""ListConfigResources names what has settings, from what the node was told of the cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from springtide.contract.epochs import BrokerEpoch
from springtide.contract.groups import GroupConfigs
from springtide.contract.partition_state import TopicState
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers.table import SHARED_HANDLERS
from springtide.wire.apis import ApiKey
from tests.kit.springtide.asking import answer_of

TOLD = UpdateBatch(
    topics=(TopicState(topic_id="T" * 21 + "A", topic="orders", partitions=1, replication_factor=1),),
    brokers=(BrokerEndpoint(broker_id=1, broker_epoch=BrokerEpoch(1), host="h", port=9092),),
    coordinators=(BrokerEndpoint(broker_id=1001, broker_epoch=BrokerEpoch(2), host="d", port=9092),),
    group_configs=(
        GroupConfigs(group_id="b", configs={"x": "1"}),
        GroupConfigs(group_id="a", configs={"x": "1"}),
    ),
)


def ask(version: int, *types: int, is_told: bool = True) -> Any:
    view = ClusterView()
    view.apply(TOLD, now_ms=0)
    context = SimpleNamespace(view=view, may_judge=lambda: is_told)
    key = ApiKey.LIST_CONFIG_RESOURCES
    fields = {"resource_types": types} if version else {}
    return answer_of(SHARED_HANDLERS[key], key, version, fields, context=context)


@pytest.mark.parametrize(
    ("types", "found"),
    [
        ((32,), [(32, "a"), (32, "b")]),
        ((4, 2, 4), [(4, "1"), (4, "1001"), (2, "orders")]),
        ((8, 16), []),
        ((), [(2, "orders"), (4, "1"), (4, "1001"), (32, "a"), (32, "b")]),
    ],
)
def test_resources_are_listed_by_type(types: tuple[int, ...], found: list[tuple[int, str]]) -> None:
    answer = ask(1, *types)
    told = [(one.resource_type, one.resource_name) for one in answer.config_resources]
    assert (answer.error_code, told) == (0, found)


def test_the_first_version_asks_for_metrics_of_clients_which_none_has() -> None:
    assert (ask(0).error_code, ask(0).config_resources) == (0, ())


def test_an_unknown_type_is_refused_and_a_node_that_knows_nothing_of_now_says_so() -> None:
    assert ask(1, 32, 64).error_code == 35
    assert ask(1, is_told=False).error_code == 41
