"""DescribeCluster in every version: brokers, fenced ones, rights, other endpoints; before the first state, as
Metadata."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from springtide.contract.epochs import BrokerEpoch
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers import describe_cluster, metadata
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.springtide.asking import answer_of

KEY = ApiKey.DESCRIBE_CLUSTER
VERSIONS = range(APIS[KEY].version_max + 1)


def ask(version: int, **fields: Any) -> Any:
    """Of a cluster with broker 1 in rack "r" and broker 2, which is fenced."""
    view = ClusterView()
    view.cluster_id = "prod"
    view.apply(
        UpdateBatch(
            brokers=(
                BrokerEndpoint(broker_id=1, broker_epoch=BrokerEpoch(1), host="h", port=9, rack="r"),
                BrokerEndpoint(broker_id=2, broker_epoch=BrokerEpoch(1), host="h", port=10, active=False),
            )
        ),
        now_ms=0,
    )
    asked = {"include_cluster_authorized_operations": False, "endpoint_type": 1} | fields
    context = SimpleNamespace(view=view, is_view_complete=lambda: True)
    return answer_of(describe_cluster.handle, KEY, version, asked, context=context)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_clusters_id_brokers_and_controller_are_told(version: int) -> None:
    answer = ask(version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (ErrorCode.NONE, "prod", 1)
    assert [(one.broker_id, one.host, one.port, one.rack) for one in answer.brokers] == [(1, "h", 9, "r")]
    assert answer.cluster_authorized_operations == -(2**31)


def test_everything_is_allowed_as_in_kafka_without_an_authorizer() -> None:
    answer = ask(0, include_cluster_authorized_operations=True)
    assert answer.cluster_authorized_operations == 8096


def test_fenced_brokers_are_told_to_who_wants_them() -> None:
    answer = ask(2, include_fenced_brokers=True)
    assert [(one.broker_id, one.is_fenced) for one in answer.brokers] == [(1, False), (2, True)]
    assert [one.broker_id for one in ask(2).brokers] == [1]


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_a_client_that_looks_for_controllers_is_told_that_these_are_brokers(
    endpoint_type: int, error: ErrorCode
) -> None:
    answer = ask(1, endpoint_type=endpoint_type)
    assert (answer.error_code, answer.brokers) == (error, ())
    assert "type" in answer.error_message


@pytest.mark.parametrize(
    ("handle", "key", "asked"),
    [
        (metadata.handle, ApiKey.METADATA, {"topics": None}),
        (metadata.handle, ApiKey.METADATA, {"topics": [{"name": "orders", "topic_id": None}]}),
        (describe_cluster.handle, KEY, {"endpoint_type": 1}),
    ],
)
def test_before_the_first_state_the_connection_ends(handle: Any, key: ApiKey, asked: dict[str, Any]) -> None:
    """A cluster without brokers would be a lie, on which kafka-python's consumer ends."""
    context = SimpleNamespace(view=ClusterView(), is_view_complete=lambda: False)
    assert answer_of(handle, key, APIS[key].version_max, asked, context=context) is None
