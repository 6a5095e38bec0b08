"""What is charged to whom, and how long a client and a new connection have to wait."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.metrics_core import Metric

from springtide.contract.security import DEFAULT_ENTITY, EntityQuotas, QuotaEntity
from springtide.contract.updates import UpdateBatch
from springtide.node.authorization import ClientRights
from springtide.node.cluster_view import ClusterView
from springtide.node.connection import Connection
from springtide.node.core.quota_limits import NAME_CHARS_MAX, QuotaName
from springtide.node.core.quota_sensors import SampleWindow
from springtide.node.quotas import metrics
from springtide.node.quotas.enforcement import Account, ClientQuotas
from springtide.node.quotas.metrics import collect_quotas
from springtide.security.acls.model import ANONYMOUS
from springtide.wire.apis import ApiKey
from tests.kit.clocks import ManualClock

ALICE = QuotaEntity(user="alice")
EACH_USER = QuotaEntity(user=DEFAULT_ENTITY)
EACH_ADDRESS = QuotaEntity(ip=DEFAULT_ENTITY)
#: The window is 10 s long at each whole second.
START_MS = 5_000


class World:
    """A process with these quotas, INTERNAL as its inter-broker listener, and a clock that a test moves."""

    def __init__(self, quotas: dict[QuotaEntity, dict[str, float]], *, has_others: bool = True) -> None:
        self.clock = ManualClock(START_MS)
        self.view = ClusterView()
        self.quotas = ClientQuotas(
            self.view,
            window=SampleWindow(),
            inter_broker="INTERNAL",
            has_others=has_others,
            mono_ms=self.clock.mono_ms,
            mono_us=self.clock.mono_us,
        )
        self.alter(quotas)

    def alter(self, quotas: dict[QuotaEntity, dict[str, float]]) -> None:
        told = tuple(EntityQuotas(entity=entity, quotas=values) for entity, values in quotas.items())
        self.view.apply(UpdateBatch(quotas=told), now_ms=0)

    def open(
        self, client: Client, api_key: int = ApiKey.METADATA, size: int = 0, rights: Any = None
    ) -> Account | None:
        return self.quotas.open(cast(Connection, client), cast(ClientRights | None, rights), api_key, size)

    def account(self, client: Client) -> Account:
        account = self.open(client)
        assert account is not None
        return account

    def produce(self, client: Client, size: int) -> int:
        """Return the throttle time that the answer tells."""
        account = self.open(client, ApiKey.PRODUCE, size)
        assert account is not None
        return account.throttle_time_ms()


class Client:
    """A connection, as far as quotas know one."""

    def __init__(
        self, name: str = "alice", client_id: str | None = "app", *, listener: str = "CLIENTS"
    ) -> None:
        self.principal = f"User:{name}"
        self.client_id = client_id
        self.listener = listener
        self.sasl: object = None
        self.muted_until_ms = 0

    def mute(self, until_ms: int) -> None:
        self.muted_until_ms = max(self.muted_until_ms, until_ms)


def test_a_producer_above_its_rate_waits_and_its_other_connections_wait_when_they_produce() -> None:
    world = World({ALICE: {"producer_byte_rate": 1_000.0}})
    first, second, bob = Client(), Client(client_id="other"), Client("bob")
    assert world.produce(first, 10_000) == 0
    assert world.produce(first, 2_000) == 2_000
    assert first.muted_until_ms == START_MS + 2_000
    assert second.muted_until_ms == 0
    world.clock.now_ms += 500
    assert world.account(first).throttle_time_ms() == 1_500
    assert world.produce(second, 1_000) == 13_000 - 10_500
    assert world.produce(bob, 10**9) == 0


def test_of_a_default_each_user_has_as_much() -> None:
    world = World({EACH_USER: {"producer_byte_rate": 1_000.0}})
    assert world.produce(Client("alice"), 20_000) == 10_000
    assert world.produce(Client("bob"), 5_000) == 0


def test_a_changed_quota_holds_at_once_for_what_was_used_before_and_a_removed_one_no_more() -> None:
    world = World({ALICE: {"producer_byte_rate": 1_000.0}})
    assert world.produce(Client(), 10_000) == 0
    world.alter({ALICE: {"producer_byte_rate": 500.0}})
    assert world.produce(Client(), 0) == 10_000
    world.alter({ALICE: {}})
    assert world.produce(Client(), 10**9) == 0


def test_a_client_id_that_no_quota_can_name_is_counted_in_short_and_none_at_all_as_empty() -> None:
    world = World({QuotaEntity(client_id=DEFAULT_ENTITY): {"producer_byte_rate": 1_000.0}})
    long = "x" * 30_000
    world.produce(Client(client_id=long), 1)
    world.produce(Client(client_id=None), 1)
    told = {key for key, _ in world.quotas.usage[QuotaName.PRODUCER_BYTE_RATE].newest(10)}
    assert told == {(None, "x" * NAME_CHARS_MAX), (None, "")}


@pytest.mark.parametrize(
    ("client_id", "listener", "is_member"),
    [
        ("broker-3", "INTERNAL", True),
        ("broker-3-scrub", "INTERNAL", True),
        ("coordinator-41", "INTERNAL", True),
        ("preflight", "INTERNAL", True),
        ("springtide-controller", "INTERNAL", True),
        ("broker-3", "CLIENTS", False),
        ("broker-x", "INTERNAL", False),
        ("app", "INTERNAL", False),
        (None, "INTERNAL", False),
    ],
)
def test_without_an_authorizer_members_are_known_by_listener_and_client_id(
    client_id: str | None, listener: str, is_member: bool
) -> None:
    world = World({EACH_USER: {"producer_byte_rate": 1.0}})
    client = Client("ANONYMOUS", client_id, listener=listener)
    assert (world.open(client, ApiKey.PRODUCE, 10**6) is None) is is_member
    assert (client.muted_until_ms == 0) is is_member


@pytest.mark.parametrize("is_member", [True, False])
def test_with_an_authorizer_the_certificate_says_who_is_a_member(is_member: bool) -> None:
    world = World({EACH_USER: {"producer_byte_rate": 1.0}})
    rights = SimpleNamespace(is_member=is_member)
    client = Client("ANONYMOUS", "broker-3", listener="INTERNAL")
    assert (world.open(client, rights=rights) is None) is is_member


def test_a_client_that_has_yet_to_log_in_is_charged_to_no_one() -> None:
    world = World({EACH_USER: {"request_percentage": 1.0}})
    client = Client()
    client.sasl, client.principal = object(), ANONYMOUS
    assert world.open(client) is None
    client.principal = "User:alice"
    assert world.open(client) is not None


def test_the_time_of_requests_is_charged_and_makes_wait_for_one_sample_at_most() -> None:
    world = World({ALICE: {"request_percentage": 10.0}})
    client = Client()
    for spent_ms, told_ms in ((500, 0), (500, 0), (20, 180), (3_000, 1_000)):
        account = world.account(client)
        world.clock.now_ms += spent_ms
        assert account.throttle_time_ms() == told_ms
        account.end()
    world.clock.now_ms += 11_000
    assert world.account(client).throttle_time_ms() == 0


def test_time_after_the_handler_is_not_the_requests() -> None:
    """A request may wait for replication for long."""
    world = World({ALICE: {"request_percentage": 10.0}})
    account = world.account(Client())
    world.clock.now_ms += 900
    account.end()
    world.clock.now_ms += 60_000
    assert account.throttle_time_ms() == 0
    assert world.quotas.usage[QuotaName.REQUEST_PERCENTAGE].of(("alice", None), START_MS).rate(5_900) > 8


def test_a_consumer_is_told_that_it_is_above_its_quota_before_it_gets_more() -> None:
    world = World({ALICE: {"consumer_byte_rate": 1_000.0}})
    account = world.account(Client())
    assert account.window_max(QuotaName.CONSUMER_BYTE_RATE) == 10_000
    assert not account.is_over(QuotaName.CONSUMER_BYTE_RATE)
    account.charge(QuotaName.CONSUMER_BYTE_RATE, 11_000)
    assert account.throttle_time_ms() == 1_000
    other = Client(client_id="other")
    assert world.account(other).is_over(QuotaName.CONSUMER_BYTE_RATE)
    assert other.muted_until_ms == START_MS + 1_000
    assert world.account(Client("bob")).window_max(QuotaName.CONSUMER_BYTE_RATE) is None


def test_changes_of_topics_above_the_rate_are_refused_where_the_client_knows_why() -> None:
    world = World({ALICE: {"controller_mutation_rate": 2.0}})
    client = Client()
    account = world.account(client)
    assert account.may_mutate(30, is_strict=True)
    assert account.throttle_time_ms() == 0
    assert not account.may_mutate(1, is_strict=True)
    assert account.throttle_time_ms() == 4_000
    world.clock.now_ms += 4_000
    assert world.account(client).may_mutate(1, is_strict=True)
    assert world.account(Client("bob")).may_mutate(10**6, is_strict=True)


def test_an_older_client_changes_topics_and_waits() -> None:
    world = World({ALICE: {"controller_mutation_rate": 2.0}})
    account = world.account(Client())
    assert account.may_mutate(22, is_strict=False)
    assert account.throttle_time_ms() == 0
    assert account.may_mutate(10, is_strict=False)
    assert account.throttle_time_ms() == 5_000


def test_an_address_above_its_rate_of_connections_waits_and_those_are_not_counted() -> None:
    world = World({EACH_ADDRESS: {"connection_creation_rate": 1.0}})

    def connect(peer: str) -> int:
        return world.quotas.connection_delay_ms(peer, "CLIENTS")

    assert [connect("10.0.0.1") for _ in range(12)] == [0] * 10 + [1_000, 1_000]
    assert connect("::ffff:10.0.0.1") == 1_000
    assert connect("10.0.0.2") == 0
    world.clock.now_ms += 900
    assert connect("10.0.0.1") == 100
    world.clock.now_ms += 100 + 10_000
    assert connect("10.0.0.1") == 0


def test_connections_of_members_are_not_counted_where_clients_have_another_listener() -> None:
    quotas = {EACH_ADDRESS: {"connection_creation_rate": 1.0}}
    world = World(quotas)
    assert {world.quotas.connection_delay_ms("10.0.0.1", "INTERNAL") for _ in range(100)} == {0}
    alone = World(quotas, has_others=False)
    assert 1_000 in {alone.quotas.connection_delay_ms("10.0.0.1", "INTERNAL") for _ in range(100)}


def samples(families: list[Metric]) -> dict[tuple[str, ...], float]:
    return {
        (
            sample.name,
            sample.labels["resource"],
            sample.labels["user"],
            sample.labels["clientId"],
        ): sample.value
        for family in families
        for sample in family.samples
    }


def test_metrics_tell_rates_and_waits_of_clients_with_a_quota_and_of_no_others() -> None:
    world = World(
        {
            ALICE: {"producer_byte_rate": 1_000.0, "request_percentage": 200.0},
            QuotaEntity(client_id="app"): {"consumer_byte_rate": 10.0},
        }
    )
    world.produce(Client(), 12_000)
    world.produce(Client("bob"), 10**9)
    assert samples(list(collect_quotas(world.quotas))) == {
        ("kafka_server_quota_byte_rate", "Produce", "alice", ""): 1_200.0,
        ("kafka_server_quota_throttle_time", "Produce", "alice", ""): 2_000.0,
        ("kafka_server_quota_request_time", "Request", "alice", ""): 0.0,
        ("kafka_server_quota_throttle_time", "Request", "alice", ""): 0.0,
    }


def test_metrics_are_of_those_that_used_their_quota_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "ENTITIES_TOLD_MAX", 2)
    world = World({EACH_USER: {"producer_byte_rate": 1_000.0}})
    for name in ("a", "b", "c", "a"):
        world.produce(Client(name), 1)
    assert {labels[2] for labels in samples(list(collect_quotas(world.quotas)))} == {"a", "c"}
