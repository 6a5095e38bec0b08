"""Shows a topic's settings, and changes them: all that a request names, or none."""

from __future__ import annotations

from collections.abc import Mapping

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.configs.models import ConfigsAltered, ConfigView
from admin_api.problem import ProblemError
from admin_api.services import Services
from admin_api.topics.service import check_settled, find_topic, version_of
from admin_api.writes import Attempt, refusal_problem
from controller.contract.partition_state import TopicState
from controller.core.configs import TOPIC_SETTINGS, effective_min_insync_replicas
from controller.core.events import ConfigureTopic, Refusal, TopicConfigured


def config_view(name: str, topic: TopicState, cluster_configs: Mapping[str, str]) -> ConfigView:
    """name: a known one."""
    setting = TOPIC_SETTINGS[name]
    default = setting.default
    if default is None:  # the minimum in sync: it follows from the replication factor
        default = str(effective_min_insync_replicas({}, {}, replication_factor=topic.replication_factor))
    value, source = default, "default"
    if setting.cluster_name is not None and setting.cluster_name in cluster_configs:
        value, source = cluster_configs[setting.cluster_name], "cluster"
    if name in topic.configs:
        value, source = topic.configs[name], "topic"
    return ConfigView(
        name=name,
        value=value,
        source=source,
        default=default,
        cluster_config=setting.cluster_name,
        is_read_only=len(setting.choices) == 1,
    )


def config_views(topic: TopicState, cluster_configs: Mapping[str, str]) -> list[ConfigView]:
    """Every setting there is, by name."""
    return [config_view(name, topic, cluster_configs) for name in sorted(TOPIC_SETTINGS)]


def check_known(name: str) -> None:
    if name not in TOPIC_SETTINGS:
        raise ProblemError("config_not_found", f"topics have no setting {name[:100]!r}")


async def set_config(
    services: Services,
    cluster: str,
    topic: str,
    attempt: Attempt,
    *,
    name: str,
    value: str | None,
    condition: Condition,
) -> Answer:
    """200 with the setting as it is then. value: None unsets it."""
    # What is wrong with a value is wrong with the body's only field, or with the path's name.
    at = "/value" if name in TOPIC_SETTINGS else None
    after, _ = await _configure(
        services, cluster, topic, attempt, configs={name: value}, condition=condition, at=at
    )
    view = services.engine.image(cluster)
    shown = config_view(name, after, view.image.configs)
    return Answer.of(200, shown, version=None if attempt.dry_run else version_of(view, after))


async def alter_configs(
    services: Services,
    cluster: str,
    topic: str,
    attempt: Attempt,
    *,
    configs: Mapping[str, str | None],
    condition: Condition,
) -> Answer:
    """200 with those named as they are then."""
    after, changed = await _configure(
        services, cluster, topic, attempt, configs=configs, condition=condition, at=None
    )
    view = services.engine.image(cluster)
    items = [config_view(name, after, view.image.configs) for name in sorted(configs)]
    answer = ConfigsAltered(items=items, partitions_changed=changed)
    return Answer.of(200, answer, version=None if attempt.dry_run else version_of(view, after))


async def _configure(
    services: Services,
    cluster: str,
    name: str,
    attempt: Attempt,
    *,
    configs: Mapping[str, str | None],
    condition: Condition,
    at: str | None,
) -> tuple[TopicState, int]:
    """The topic afterwards, and of how many partitions the minimum changed. at: where in the body a refusal
    points to."""
    engine = services.engine
    topic = find_topic(engine.image(cluster), cluster, name)
    check_settled(engine, cluster, topic, condition)
    reply = await engine.submit(
        cluster,
        ConfigureTopic(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            dry_run=attempt.dry_run,
            topic_id=topic.topic_id,
            configs=dict(configs),
        ),
    )
    match reply:
        case TopicConfigured(state=state, partitions=partitions):
            return state, len(partitions)
        case Refusal() as refusal:
            raise refusal_problem(refusal, pointer=at)
        case _:
            raise AssertionError(f"unexpected answer to ConfigureTopic: {reply!r}")
