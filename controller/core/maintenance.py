"""The properties that operators set on a broker: maintenance, rack and labels, settings. All of them outlive
the broker's process, so that a restart in the middle of the work does not undo them.

    cordoned    gets no new replicas, by placement or by reassignment; keeps what it has
    draining    cordoned, and plans empty it; drained: it holds no replica
    demoted     leads only what no other broker may; what it leads is handed over, at once or, where no other
                replica is in sync yet, in later rounds

None of this touches an ISR: a broker under maintenance stays in sync and can be elected when all others fail.
"""

from __future__ import annotations

import msgspec

from controller.core.assignment import first_leader
from controller.core.configs import changed_configs
from controller.core.draft import Draft
from controller.core.election import eligible_ids, hand_over_demoted
from controller.core.events import (
    BrokerDescribed,
    BrokersConfigured,
    BrokersMaintained,
    ConfigureBrokers,
    DescribeBroker,
    MaintainBrokers,
    Refusal,
)
from controller.core.image import ClusterImage
from controller.core.records import BrokerRegistration, Cause
from controller.core.settings_table import BROKER_SETTINGS
from controller.core.topics import operator_change
from controller.core.workers import check_named, workers_named, workers_of
from springtide.contract.partition_state import NO_LEADER


def maintain_brokers(draft: Draft, event: MaintainBrokers) -> BrokersMaintained | Refusal:
    image = draft.image
    refusal = check_named(image, event.broker_ids, "broker_ids")
    if refusal is not None:
        return refusal
    workers = workers_named(image, event.broker_ids)
    changed = {b: _maintained(worker, event) for b, worker in workers.items()}
    if event.dry_run:
        moved = sum(_movable(image, b, changed) for b, after in changed.items() if after.demoted)
        return BrokersMaintained(brokers=tuple(changed.values()), leaders_moved=moved, dry_run=True)
    for broker_id, after in changed.items():
        if after != image.brokers[broker_id]:
            draft.write_member(after, operator_change(event, Cause.BROKER_MAINTENANCE))
    # After all of them: leaderships must not move from one to the next that is about to be demoted.
    change = operator_change(event, Cause.LEADER_DEMOTED)
    moved = sum(hand_over_demoted(draft, b, change) for b, after in changed.items() if after.demoted)
    return BrokersMaintained(brokers=tuple(changed.values()), leaders_moved=moved)


def describe_broker(draft: Draft, event: DescribeBroker) -> BrokerDescribed | Refusal:
    """Store the description, of all its workers. It moves nothing: placement and plans go by it from now
    on."""
    refusal = check_named(draft.image, [event.broker_id], "broker_id")
    if refusal is not None:
        return refusal
    described = []
    for before in workers_of(draft.image, event.broker_id):
        after = _described(before, event)
        if after != before and not event.dry_run:
            is_cordon = after.cordoned is not before.cordoned
            cause = Cause.BROKER_MAINTENANCE if is_cordon else Cause.BROKER_DESCRIBED
            draft.write_member(after, operator_change(event, cause))
        described.append(after)
    return BrokerDescribed(broker=described[0], dry_run=event.dry_run)


def _described(before: BrokerRegistration, event: DescribeBroker) -> BrokerRegistration:
    after = before
    if not isinstance(event.rack, msgspec.UnsetType):
        own = before.rack if before.assigned_rack is None else before.own_rack
        after = msgspec.structs.replace(
            after,
            rack=own if event.rack is None else event.rack,
            assigned_rack=event.rack,
            own_rack=None if event.rack is None else own,
        )
    labels = {name: text for name, text in (before.labels | event.labels).items() if text is not None}
    cordoned = before.cordoned if event.cordoned is None else event.cordoned
    return msgspec.structs.replace(after, labels=labels, cordoned=cordoned)


def configure_brokers(draft: Draft, event: ConfigureBrokers) -> BrokersConfigured | Refusal:
    """Set how much replication traffic of moves each broker may bear. The settings stand in the broker's row,
    so they outlive its process and every controller, and reach all brokers with its endpoint."""
    image = draft.image
    wrong = check_named(image, event.broker_ids, "broker_ids") or changed_configs(
        {}, event.configs, BROKER_SETTINGS
    )
    if isinstance(wrong, Refusal):
        return wrong
    configured = []
    for before in workers_named(image, event.broker_ids).values():
        configs = changed_configs(before.configs, event.configs, BROKER_SETTINGS)
        assert not isinstance(configs, Refusal)
        after = msgspec.structs.replace(before, configs=configs)
        if after != before and not event.dry_run:
            draft.write_member(after, operator_change(event, Cause.BROKER_CONFIGURED))
        configured.append(after)
    return BrokersConfigured(brokers=tuple(configured), dry_run=event.dry_run)


def _maintained(broker: BrokerRegistration, event: MaintainBrokers) -> BrokerRegistration:
    return msgspec.structs.replace(
        broker,
        cordoned=broker.cordoned if event.cordoned is None else event.cordoned,
        draining=broker.draining if event.draining is None else event.draining,
        demoted=broker.demoted if event.demoted is None else event.demoted,
    )


def _movable(image: ClusterImage, broker_id: int, changed: dict[int, BrokerRegistration]) -> int:
    """Return how many of the broker's leaderships another replica in sync could take."""
    demoted = {b for b in image.demoted if b not in changed} | {b for b in changed if changed[b].demoted}
    eligible = eligible_ids(image)
    successors = (
        first_leader(image.partitions[key].isr, eligible, demoted)
        for key in image.leader_of.get(broker_id, {})
    )
    return sum(b != NO_LEADER and b not in demoted for b in successors)
