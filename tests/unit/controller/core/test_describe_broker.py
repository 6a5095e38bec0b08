"""An operator's word on where a broker stands counts over the broker's own, until it is taken back."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.events import BrokerDescribed, DescribeBroker, Refusal, RefusalCode, RegisterMember
from controller.core.records import Cause, MemberRecord
from springtide.contract.session import RegisterResponse
from tests.kit.controller.core_cluster import Cluster


def described(cluster: Cluster, **fields: object) -> BrokerDescribed:
    event = DescribeBroker(wall_ms=5, actor="ann", reason="moved", broker_id=1, **fields)  # type: ignore[arg-type]
    return cluster.ask(event, BrokerDescribed)


def register(cluster: Cluster, incarnation: str, rack: str | None) -> None:
    request = msgspec.structs.replace(cluster.request(1, incarnation), rack=rack)
    cluster.now_ms += 60_000
    cluster.ask(RegisterMember(request=request, wall_ms=0), RegisterResponse)


def test_the_operators_word_counts_and_is_kept_over_restarts() -> None:
    cluster = Cluster()
    described(cluster, rack="r9", labels={"owner": "storage", "floor": "2"})
    broker = cluster.broker(1)
    assert (broker.rack, broker.assigned_rack, broker.labels) == (
        "r9",
        "r9",
        {"owner": "storage", "floor": "2"},
    )
    (record,) = cluster.last.records
    assert isinstance(record, MemberRecord)
    assert (record.change.cause, record.change.actor) == (Cause.BROKER_DESCRIBED, "ann")
    register(cluster, "a", "r1")  # the same process, again
    assert (cluster.broker(1).rack, cluster.broker(1).own_rack) == ("r9", "r1")
    register(cluster, "b", "r2")
    broker = cluster.broker(1)
    assert (broker.incarnation_id.endswith("b"), broker.rack, broker.own_rack) == (True, "r9", "r2")
    assert broker.labels == {"owner": "storage", "floor": "2"}
    described(cluster, rack=None, labels={"floor": None})
    broker = cluster.broker(1)
    assert (broker.rack, broker.assigned_rack, broker.own_rack) == ("r2", None, None)
    assert broker.labels == {"owner": "storage"}
    register(cluster, "c", "r3")
    assert cluster.broker(1).rack == "r3"


def test_what_is_not_named_stays() -> None:
    cluster = Cluster()
    described(cluster, rack="r9")
    described(cluster, labels={"owner": "x"})
    described(cluster, cordoned=True)
    broker = cluster.broker(1)
    assert (broker.rack, broker.labels, broker.cordoned) == ("r9", {"owner": "x"}, True)
    described(cluster, rack="r8")  # again: what the broker said is not forgotten
    described(cluster, rack=None)
    assert cluster.broker(1).rack is None


@pytest.mark.parametrize("dry_run", [True, False])
def test_nothing_is_written_where_nothing_changes(dry_run: bool) -> None:
    cluster = Cluster()
    reply = described(cluster, labels={"gone": None}, dry_run=dry_run)
    assert (cluster.last.records, reply.broker) == ((), cluster.broker(1))
    planned = described(cluster, rack="r1", dry_run=True)
    assert (cluster.last.records, planned.broker.rack, cluster.broker(1).rack) == ((), "r1", None)


def test_a_broker_that_is_not_there_is_refused() -> None:
    event = DescribeBroker(wall_ms=5, actor="ann", broker_id=9, rack="r1")
    assert Cluster().ask(event, Refusal).code is RefusalCode.UNKNOWN_BROKER
