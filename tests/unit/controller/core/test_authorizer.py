"""When ACLs may decide: the cluster's own processes are known by certificates."""

from __future__ import annotations

from controller.core.events import (
    AdmitBrokers,
    AdmitCoordinators,
    BrokersAdmitted,
    ClusterConfigured,
    ConfigureCluster,
    CoordinatorsChanged,
    Refusal,
    RefusalCode,
    RegisterMember,
)
from controller.core.records import MemberKind
from springtide.contract.errors import ControllerError
from springtide.contract.security import AUTHORIZER, STANDARD_AUTHORIZER
from springtide.contract.session import ListenerAddress, RegisterRequest, RegisterResponse, ShutdownKind
from tests.kit.controller.core_cluster import CLUSTER_ID, Cluster

CLIENTS = ListenerAddress(host="store", port=9093, protocol="SASL_SSL")


def configure(value: str | None) -> ConfigureCluster:
    return ConfigureCluster(wall_ms=0, actor="ann", configs={AUTHORIZER: value})


def request(node_id: int, protocol: str, *, of_coordinator: bool = False) -> RegisterRequest:
    return RegisterRequest(
        broker_id=node_id,
        incarnation_id=f"incarnation-{node_id}",
        cluster_id=CLUSTER_ID,
        host="store",
        port=9092,
        listeners={
            "INTERNAL": ListenerAddress(host="store", port=9092, protocol=protocol),
            "CLIENTS": CLIENTS,
        },
        log_dir_ids=() if of_coordinator else (f"dir-{node_id}",),
        last_shutdown=ShutdownKind.FIRST_START,
    )


def register(cluster: Cluster, node_id: int, protocol: str) -> RegisterResponse:
    return cluster.ask(RegisterMember(wall_ms=0, request=request(node_id, protocol)), RegisterResponse)


def register_coordinator(cluster: Cluster, node_id: int, protocol: str) -> RegisterResponse:
    asked = request(node_id, protocol, of_coordinator=True)
    return cluster.ask(
        RegisterMember(kind=MemberKind.COORDINATOR, wall_ms=0, request=asked), RegisterResponse
    )


def secure_cluster() -> Cluster:
    cluster = Cluster(brokers=())
    register(cluster, 1, "SSL")
    cluster.ask(AdmitBrokers(wall_ms=0, actor="ann", broker_ids=(1,)), BrokersAdmitted)
    cluster.ask(configure(STANDARD_AUTHORIZER), ClusterConfigured)
    return cluster


def test_it_is_not_switched_on_while_a_broker_is_reached_without_tls() -> None:
    cluster = Cluster(brokers=(1,))
    refusal = cluster.ask(configure(STANDARD_AUTHORIZER), Refusal)
    assert refusal.code is RefusalCode.BROKER_WITHOUT_TLS
    assert "1 has none at" in refusal.detail
    assert cluster.image.configs == {}


def test_tls_on_a_listener_for_clients_is_not_enough() -> None:
    cluster = Cluster(brokers=())
    register(cluster, 1, "PLAINTEXT")
    cluster.ask(AdmitBrokers(wall_ms=0, actor="ann", broker_ids=(1,)), BrokersAdmitted)
    assert cluster.ask(configure(STANDARD_AUTHORIZER), Refusal).code is RefusalCode.BROKER_WITHOUT_TLS


def test_a_coordinator_without_tls_counts_and_one_that_only_waits_does_not() -> None:
    cluster = Cluster(brokers=())
    register_coordinator(cluster, 7, "PLAINTEXT")
    cluster.ask(configure(STANDARD_AUTHORIZER), ClusterConfigured)
    cluster.ask(configure(""), ClusterConfigured)
    cluster.ask(AdmitCoordinators(wall_ms=0, actor="ann", coordinator_ids=(7,)), CoordinatorsChanged)
    assert cluster.ask(configure(STANDARD_AUTHORIZER), Refusal).code is RefusalCode.BROKER_WITHOUT_TLS


def test_while_it_is_on_none_without_tls_registers() -> None:
    cluster = secure_cluster()
    assert register(cluster, 2, "SASL_SSL").error is ControllerError.NONE
    for refused in (register(cluster, 3, "PLAINTEXT"), register_coordinator(cluster, 7, "SASL_PLAINTEXT")):
        assert refused.error is ControllerError.INVALID_REQUEST
        assert "needs TLS between the cluster's processes" in refused.detail
    assert sorted(cluster.image.brokers) == [1, 2]
    assert cluster.image.coordinators == {}


def test_while_it_is_on_none_that_waits_without_tls_is_admitted() -> None:
    cluster = Cluster(brokers=())
    register(cluster, 1, "PLAINTEXT")
    register_coordinator(cluster, 7, "PLAINTEXT")
    cluster.ask(configure(STANDARD_AUTHORIZER), ClusterConfigured)
    for event in (
        AdmitBrokers(wall_ms=0, actor="ann", broker_ids=(1,)),
        AdmitCoordinators(wall_ms=0, actor="ann", coordinator_ids=(7,)),
    ):
        assert cluster.ask(event, Refusal).code is RefusalCode.BROKER_WITHOUT_TLS


def test_it_can_be_switched_off_and_other_settings_changed() -> None:
    cluster = secure_cluster()
    cluster.ask(ConfigureCluster(wall_ms=0, actor="ann", configs={"num.partitions": "3"}), ClusterConfigured)
    cluster.ask(configure(None), ClusterConfigured)
    assert cluster.image.configs == {"num.partitions": "3"}
    assert register(cluster, 3, "PLAINTEXT").error is ControllerError.NONE
