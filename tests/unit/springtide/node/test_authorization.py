"""The rights of a connection's client: whose they are, who is a member, and what is said of refusals."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from springtide.contract.epochs import BrokerEpoch
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.node.authorization import DENIALS_LOGGED_MAX, DENIALS_LOGGED_MS, Authorizer, ClientRights
from springtide.node.cluster_view import ClusterView
from springtide.node.counters import NodeCounters
from springtide.security.acls.model import Operation, ResourceType
from tests.kit.clocks import ManualClock
from tests.kit.springtide.acl_lines import acls


class Process:
    """A process of a cluster with broker 1, coordinator 9 and two controllers."""

    def __init__(self) -> None:
        self.view = ClusterView()
        self.counters, self.clock = NodeCounters(), ManualClock()
        self.authorizer = Authorizer(
            self.view,
            inter_broker="INTERNAL",
            controllers=("https://ctl1.example.com:8443", "http://[fd00::1]:8080"),
            counters=self.counters,
            mono_ms=self.clock.mono_ms,
        )
        self.view.apply(
            UpdateBatch(
                brokers=(
                    BrokerEndpoint(
                        broker_id=1, broker_epoch=BrokerEpoch(1), host="Store1.example.com", port=9
                    ),
                ),
                coordinators=(
                    BrokerEndpoint(broker_id=9, broker_epoch=BrokerEpoch(1), host="10.0.0.9", port=9),
                ),
            ),
            now_ms=0,
        )

    def rights(self, *names: str, listener: str = "INTERNAL", peer: str = "10.0.0.1") -> ClientRights:
        """Return those of alice, whose certificate has these names."""
        return self.authorizer.rights_of(connection(*names, listener=listener, peer=peer))


def connection(*names: str, listener: str = "CLIENTS", peer: str = "10.0.0.1") -> Any:
    return SimpleNamespace(
        principal="User:alice", peer=peer, listener=listener, certificate_names=frozenset(names), rights=None
    )


def may_read(rights: ClientRights) -> bool:
    return rights.may(Operation.READ, ResourceType.TOPIC, "orders")


@pytest.mark.parametrize(
    "name", ["store1.example.com", "10.0.0.9", "ctl1.example.com", "fd00::1", "fd00:0:0:0:0:0:0:1"]
)
def test_a_process_of_the_cluster_may_do_everything(name: str) -> None:
    rights = Process().rights("other.example.com", name)
    assert rights.is_member and rights.may_replicate() and may_read(rights)


@pytest.mark.parametrize("names", [(), ("store2.example.com",), ("*.example.com",), ("example.com",)])
def test_a_certificate_that_names_none_of_them_makes_no_member(names: tuple[str, ...]) -> None:
    process = Process()
    rights = process.rights(*names)
    assert not (rights.is_member or rights.may_replicate() or may_read(rights))
    assert process.counters.authorizations_denied == 2


def test_on_the_listener_of_clients_no_certificate_makes_a_member() -> None:
    assert not Process().rights("store1.example.com", listener="CLIENTS").is_member


def test_a_broker_that_is_removed_is_a_member_no_longer() -> None:
    process = Process()
    rights = process.rights("store1.example.com")
    assert rights.is_member
    process.view.apply(UpdateBatch(removed_brokers=(1,)), now_ms=0)
    assert not rights.is_member


def test_a_change_of_the_acls_acts_on_open_connections() -> None:
    process = Process()
    rights = process.rights()
    assert not may_read(rights)
    process.view.acls = acls("ALLOW alice@* READ TOPIC orders", version=1)
    assert may_read(rights)
    assert rights.may_any(Operation.READ, ResourceType.TOPIC)
    process.view.acls = acls("DENY alice@* READ TOPIC orders", version=2)
    assert not may_read(rights)


def test_an_address_is_compared_in_the_form_of_bindings() -> None:
    process = Process()
    process.view.acls = acls("ALLOW alice@10.0.0.7 READ TOPIC orders")
    assert may_read(process.rights(peer="::ffff:10.0.0.7"))
    assert not may_read(process.rights(peer="a name"))


def test_a_connection_keeps_its_rights_until_it_has_another_principal() -> None:
    authorizer, client = Process().authorizer, connection()
    rights = authorizer.rights_of(client)
    assert authorizer.rights_of(client) is rights
    client.principal = "User:bob"
    assert authorizer.rights_of(client).principal == "User:bob"


def test_refusals_are_counted_and_some_of_them_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    process = Process()
    rights = process.rights()
    assert not rights.may(Operation.READ, ResourceType.TOPIC, "orders", is_filter=True)
    assert (process.counters.authorizations_denied, caplog.messages) == (0, [])
    for _ in range(DENIALS_LOGGED_MAX + 3):
        assert not may_read(rights)
    assert process.counters.authorizations_denied == DENIALS_LOGGED_MAX + 3
    denied = (
        "authorization_denied principal=User:alice host=10.0.0.1 operation=READ resource_type=TOPIC "
        "resource_name=orders"
    )
    assert caplog.messages == [denied] * DENIALS_LOGGED_MAX
    caplog.clear()
    process.clock.now_ms += DENIALS_LOGGED_MS
    assert not may_read(rights)
    assert caplog.messages == ["authorizations_denied_unlogged count=3", denied]
