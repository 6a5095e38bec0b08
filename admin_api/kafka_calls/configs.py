"""AlterConfigs, IncrementalAlterConfigs and DescribeConfigs. A broker's own settings are its throttles. What
Kafka calls a broker's other settings are the cluster's settings here: they are shown with every broker and
changed under the empty name.

Settings that say what clients may do are shown and not changed here, as in Kafka, where they are read when a
broker starts: a client that may alter configs would make itself a super user."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pydantic import ValidationError

from admin_api.configs import service
from admin_api.configs.models import AlterConfigs
from admin_api.configs.service import Address, Holder, holder_of
from admin_api.http.conditions import Precondition
from admin_api.http.models import INT32_MAX
from admin_api.http.problems import ProblemError
from admin_api.http.rights import CHANGE_PROTECTION
from admin_api.http.writes import ADMIN_SETTINGS
from admin_api.kafka_calls.calls import (
    UNCONDITIONAL,
    Calls,
    Kafka,
    failed,
    outcome_of_invalid,
    outcome_of_problem,
)
from controller.face.cluster import Entity
from controller.face.settings import AUTHORIZATION_SETTINGS
from springtide.contract.administration import (
    AdminOutcome,
    AlterConfigsCall,
    ConfigSource,
    ConfigsToAlter,
    ConfigsToDescribe,
    ConfigType,
    ConfigValue,
    DescribeConfigsCall,
    DescribedConfig,
    ListChange,
    ResourceKind,
)
from springtide.contract.partition_state import TopicState

_TYPES = {
    "int": ConfigType.LONG,
    "bool": ConfigType.BOOLEAN,
    "policies": ConfigType.LIST,
    "replicas": ConfigType.LIST,
}


async def alter_configs(calls: Calls, call: AlterConfigsCall) -> list[AdminOutcome]:
    return [await _alter(calls, one, dry_run=call.validate_only) for one in call.resources]


async def _alter(calls: Calls, resource: ConfigsToAlter, *, dry_run: bool) -> AdminOutcome:
    try:
        address = _address(calls.cluster, resource.kind, resource.name)
        holder = holder_of(calls.services.engine, address)
        held = AUTHORIZATION_SETTINGS.keys() & resource.configs.keys()
        if held:
            return failed(Kafka.INVALID_CONFIG, f"{min(held)} is changed over REST or with `springtide` only")
        own = holder.own.keys() - AUTHORIZATION_SETTINGS.keys()
        unset: dict[str, str | None] = dict.fromkeys(sorted(own)) if resource.replaces else {}
        configs = unset | _values(resource.configs, holder, address.entity)
        if not configs:
            return AdminOutcome()
        body = AlterConfigs.model_validate({"configs": configs})
        if ADMIN_SETTINGS.intersection(body.configs):
            calls.writing(dry_run).need(CHANGE_PROTECTION)
    except NoListError as error:
        return failed(Kafka.INVALID_CONFIG, str(error))
    except ProblemError as problem:
        return outcome_of_problem(problem)
    except ValidationError as error:
        return outcome_of_invalid(error)
    asked = service.asked_of(address, "alter_configs", body.model_dump(mode="json"))
    # A list is changed from the value that was read: another change meanwhile is a conflict.
    is_read = any(isinstance(change, ListChange) for change in resource.configs.values())
    condition = Precondition(f'"{holder.version}.read"') if is_read else UNCONDITIONAL
    alter = partial(service.alter_configs, calls.services, address, configs=body.configs, condition=condition)
    _, outcome = await calls.carry_out(asked, alter, dry_run=dry_run)
    return outcome


class NoListError(ValueError):
    """Something is appended to a setting, or subtracted from it, that is no list, or that does not exist."""


def _values(
    changes: Mapping[str, str | ListChange | None], holder: Holder, entity: Entity
) -> dict[str, str | None]:
    """Return the values that the changes lead to, as Kafka computes them, from the value that applies now.
    Raise NoListError."""
    return {
        name: _changed_list(name, change, holder, entity) if isinstance(change, ListChange) else change
        for name, change in changes.items()
    }


def _changed_list(name: str, change: ListChange, holder: Holder, entity: Entity) -> str:
    setting = holder.settings.get(name)
    if setting is None or _TYPES.get(setting.kind) is not ConfigType.LIST:
        raise NoListError(f"{name[:100]} is no list: set it, or delete it")
    text = service.config_view(name, holder, entity, holder.own).value or ""
    items = [item for item in text.split(",") if item and item not in change.subtract]
    return ",".join(dict.fromkeys((*items, *change.append)))


def describe_configs(calls: Calls, call: DescribeConfigsCall) -> list[AdminOutcome]:
    return [_describe(calls, one) for one in call.resources]


def _describe(calls: Calls, resource: ConfigsToDescribe) -> AdminOutcome:
    """Describe the settings of a topic, a broker, or all brokers. A coordinator has the cluster's: tools ask
    for the settings of each node that Metadata lists, and some end at the first error (kafkactl)."""
    engine = calls.services.engine
    try:
        address = _address(calls.cluster, resource.kind, resource.name)
        coordinators = engine.cluster(calls.cluster).image.coordinators
        if address.entity is Entity.BROKER and address.broker_id in coordinators:
            address = Address(cluster=calls.cluster, entity=Entity.CLUSTER)
        described = _described(holder_of(engine, address), address.entity)
    except ProblemError as problem:
        return outcome_of_problem(problem)
    if address.entity is Entity.BROKER:
        of_all = Address(cluster=calls.cluster, entity=Entity.CLUSTER)
        described = _described(holder_of(engine, of_all), Entity.CLUSTER) | described
    if resource.names is not None:
        wanted = set(resource.names)
        described = {name: config for name, config in described.items() if name in wanted}
    return AdminOutcome(configs=tuple(described[name] for name in sorted(described)))


def described_topic(calls: Calls, topic: TopicState) -> tuple[DescribedConfig, ...]:
    """Return the settings of a topic that need not exist yet."""
    engine = calls.services.engine
    described = _described(service.of_topic(engine, engine.cluster(calls.cluster), topic), Entity.TOPIC)
    return tuple(described[name] for name in sorted(described))


def _described(holder: Holder, entity: Entity) -> dict[str, DescribedConfig]:
    """Return the settings by name, also those that have one value only: clients of Kafka look up any."""
    return {
        view.name: DescribedConfig(
            name=view.name,
            value=view.value,
            source=ConfigSource(view.source),
            type=_TYPES.get(holder.settings[view.name].kind, ConfigType.STRING),
            is_read_only=view.is_read_only,
            synonyms=_synonyms(view.name, view.default, holder, entity),
            note=view.note,
        )
        for view in service.accepted_views(holder, entity)
    }


def _synonyms(name: str, default: str | None, holder: Holder, entity: Entity) -> tuple[ConfigValue, ...]:
    """Return the values from the effective layer down to the default, each under the name that its layer
    uses."""
    found: list[ConfigValue] = []
    cluster_name = holder.cluster_name(name)
    if name in holder.own:
        found.append(ConfigValue(name=name, value=holder.own[name], source=ConfigSource(entity.value)))
    if cluster_name is not None and cluster_name in holder.inherited:
        value = holder.inherited[cluster_name]
        found.append(ConfigValue(name=cluster_name, value=value, source=ConfigSource.CLUSTER))
    if default is not None:
        found.append(ConfigValue(name=cluster_name or name, value=default, source=ConfigSource.DEFAULT))
    return tuple(found)


def _address(cluster: str, kind: ResourceKind, name: str) -> Address:
    """Return the address of the resource. Raise invalid_request if a broker's or a group's name is no id."""
    if kind is ResourceKind.TOPIC:
        return Address(cluster=cluster, entity=Entity.TOPIC, topic=name)
    if kind is ResourceKind.GROUP and name:
        return Address(cluster=cluster, entity=Entity.GROUP, group_id=name)
    if kind is not ResourceKind.BROKER:
        raise ProblemError("invalid_request", "this release has no settings of resources of that kind")
    if name == "":
        return Address(cluster=cluster, entity=Entity.CLUSTER)
    if not (name.isascii() and name.isdigit() and len(name) <= 10 and int(name) <= INT32_MAX):
        raise ProblemError("invalid_request", f"{name[:20]!r} is no broker's id")
    return Address(cluster=cluster, entity=Entity.BROKER, broker_id=int(name))
