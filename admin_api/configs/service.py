"""Reading and changing settings: a request changes all settings that it names, or none."""

from __future__ import annotations

from collections.abc import Mapping

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.configs.holders import Address, Holder, holder_of
from admin_api.configs.models import ConfigsAltered, ConfigView
from admin_api.problem import ProblemError
from admin_api.services import Services
from admin_api.writes import Attempt, refusal_problem
from controller.audit.change import Entity
from controller.core.events import (
    BrokersConfigured,
    ClusterConfigured,
    ConfigureBrokers,
    ConfigureCluster,
    ConfigureTopic,
    Refusal,
    TopicConfigured,
)


def config_view(name: str, holder: Holder, entity: Entity, own: Mapping[str, str]) -> ConfigView:
    """Return the view of a known setting. own: the values set for the holder, or those that a dry run would
    set."""
    setting = holder.settings[name]
    cluster_name = holder.cluster_name(name)
    default = setting.default if setting.default is not None else holder.computed.get(name)
    value, source = default, "default"
    if cluster_name is not None and cluster_name in holder.inherited:
        value, source = holder.inherited[cluster_name], "cluster"
    if name in own:
        value, source = own[name], entity.value
    return ConfigView(
        name=name,
        value=value,
        source=source,
        default=default,
        cluster_config=cluster_name,
        is_read_only=len(setting.choices) == 1,
    )


def config_views(holder: Holder, entity: Entity) -> list[ConfigView]:
    """Return the views of all settings, by name."""
    return [config_view(name, holder, entity, holder.own) for name in sorted(holder.settings)]


def check_known(name: str, holder: Holder, address: Address) -> None:
    if name not in holder.settings:
        raise ProblemError(
            "config_not_found",
            f"{address.entity.value}s have no setting {name[:100]!r}",
            hint=f"known: {', '.join(sorted(holder.settings))}",
        )


async def set_config(
    services: Services,
    address: Address,
    attempt: Attempt,
    *,
    name: str,
    value: str | None,
    condition: Condition,
) -> Answer:
    """Set one setting and answer 200 with its new state. value: None unsets it."""
    holder = holder_of(services.engine, address)
    # An error in a value points to the body's only field, an error in the name to the path.
    pointer = "/value" if name in holder.settings else None
    own = await _configure(
        services, address, holder, attempt, configs={name: value}, condition=condition, pointer=pointer
    )
    shown = config_view(name, holder, address.entity, own)
    return Answer.of(200, shown, version=_version(services, address, attempt))


async def alter_configs(
    services: Services,
    address: Address,
    attempt: Attempt,
    *,
    configs: Mapping[str, str | None],
    condition: Condition,
) -> Answer:
    """Change the named settings and answer 200 with their new state."""
    holder = holder_of(services.engine, address)
    own = await _configure(services, address, holder, attempt, configs=configs, condition=condition)
    items = [config_view(name, holder, address.entity, own) for name in sorted(configs)]
    return Answer.of(200, ConfigsAltered(items=items), version=_version(services, address, attempt))


def _version(services: Services, address: Address, attempt: Attempt) -> str | None:
    return None if attempt.dry_run else holder_of(services.engine, address).version


async def _configure(
    services: Services,
    address: Address,
    holder: Holder,
    attempt: Attempt,
    *,
    configs: Mapping[str, str | None],
    condition: Condition,
    pointer: str | None = None,
) -> Mapping[str, str]:
    """Change the settings and return what is set for the holder afterwards. pointer: the place in the body
    that a refusal points to."""
    condition.check(holder.version if holder.is_settled else None, what=address.what)
    reply = await services.engine.submit(address.cluster, _event(address, holder, attempt, dict(configs)))
    match reply:
        case TopicConfigured(state=state):
            return state.configs
        case BrokersConfigured(brokers=(broker,)):
            return broker.configs
        case ClusterConfigured(configs=own):
            return own
        case Refusal() as refusal:
            raise refusal_problem(refusal, pointer=pointer)
        case _:
            raise AssertionError(f"unexpected answer to a configuration: {reply!r}")


def _event(
    address: Address, holder: Holder, attempt: Attempt, configs: dict[str, str | None]
) -> ConfigureTopic | ConfigureBrokers | ConfigureCluster:
    if holder.topic_id is not None:
        return ConfigureTopic(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            dry_run=attempt.dry_run,
            topic_id=holder.topic_id,
            configs=configs,
        )
    if address.broker_id is not None:
        return ConfigureBrokers(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            dry_run=attempt.dry_run,
            broker_ids=(address.broker_id,),
            configs=configs,
        )
    return ConfigureCluster(
        wall_ms=attempt.wall_ms,
        actor=attempt.actor,
        reason=attempt.reason,
        request_id=attempt.request_id,
        dry_run=attempt.dry_run,
        configs=configs,
    )
