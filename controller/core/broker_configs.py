"""Settings of single brokers: how much replication traffic of moves each may bear. They stand in the broker's
row, so they outlive its process and every controller, and reach all brokers with its endpoint."""

from __future__ import annotations

import msgspec

from controller.core.configs import BROKER_SETTINGS, check_configs
from controller.core.draft import Draft
from controller.core.events import BrokersConfigured, ConfigureBrokers, Refusal, RefusalCode
from controller.core.records import BrokerRegistration, Cause
from controller.core.topics import operator_change


def configure_brokers(draft: Draft, event: ConfigureBrokers) -> BrokersConfigured | Refusal:
    image = draft.image
    for broker_id in event.broker_ids:
        if broker_id not in image.brokers:
            return Refusal(
                code=RefusalCode.UNKNOWN_BROKER,
                field="broker_ids",
                detail=f"broker {broker_id} is not registered",
            )
    wanted = {name: value for name, value in event.configs.items() if value is not None}
    # A name that is to be unset is checked too: a typing error must not pass for "done".
    unknown = {name: "" for name in event.configs if name not in BROKER_SETTINGS}
    refusal = check_configs({**wanted, **unknown}, BROKER_SETTINGS)
    if refusal is not None:
        return refusal
    configured = []
    for broker_id in dict.fromkeys(event.broker_ids):
        before = image.brokers[broker_id]
        after = _configured(before, event, wanted)
        if after != before and not event.dry_run:
            draft.write_broker(after, operator_change(event, Cause.BROKER_CONFIGURED))
        configured.append(after)
    return BrokersConfigured(brokers=tuple(configured), dry_run=event.dry_run)


def _configured(
    broker: BrokerRegistration, event: ConfigureBrokers, wanted: dict[str, str]
) -> BrokerRegistration:
    kept = {name: value for name, value in broker.configs.items() if name not in event.configs}
    return msgspec.structs.replace(broker, configs=dict(sorted({**kept, **wanted}.items())))
