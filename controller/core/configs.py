"""Check settings, and tell which value applies.

Names and meanings are Kafka's, so that tools and habits carry over. A topic holds overrides under the topic's
names, the cluster holds defaults under the broker's names, and a few of those a single broker can override.
Which settings there are, and what becomes of each, is in settings_table.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from controller.core.durations import milliseconds
from controller.core.events import Refusal, RefusalCode
from controller.core.settings_table import (
    CLUSTER_PROTECTED,
    DELETED_RETENTION,
    DELETION_PROTECTED,
    DISK_RESERVE,
    TOPIC_SETTINGS,
    Setting,
)
from springtide.levels import KEPT_DELETED_TOPICS, Level, allows

MIN_LAG: Final = "min.compaction.lag.ms"
MAX_LAG: Final = "max.compaction.lag.ms"
#: Each delta of the metadata stream that has settings has all of them.
PRINCIPALS_LENGTH_MAX: Final = 8_000
WRONG_NAMED_MAX: Final = 10
_IN_MS: Final = "it is in milliseconds, or with units: 604800000, 7 d, 1 h 30 min"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DOUBLE: Final = re.compile(r"[+-]?[0-9]*\.?[0-9]+([eE][+-]?[0-9]{1,3})?")
_REPLICAS: Final = re.compile(r"\*|([0-9]{1,10}:[0-9]{1,10}(,[0-9]{1,10}:[0-9]{1,10})*)?")


class BadValueError(ValueError):
    """A value can't be; the message follows the setting's name."""


def checked_configs(
    configs: Mapping[str, str], settings: Mapping[str, Setting] = TOPIC_SETTINGS
) -> dict[str, str] | Refusal:
    """Return the settings, by name, each value in its one spelling, or the refusal of the first that is
    unknown, refused, or has a bad value, in words that name the others, too."""
    checked: dict[str, str] = {}
    wrong: list[Refusal] = []
    for name in sorted(configs):
        found = _checked(name, configs[name], settings.get(name), settings)
        if isinstance(found, Refusal):
            wrong.append(found)
        else:
            checked[name] = found
    if not wrong:
        return checked
    more = f"; and {len(wrong) - WRONG_NAMED_MAX} more" if len(wrong) > WRONG_NAMED_MAX else ""
    said = "; ".join(refusal.detail for refusal in wrong[:WRONG_NAMED_MAX])
    return msgspec.structs.replace(wrong[0], detail=said + more)


def _checked(
    name: str, value: str, setting: Setting | None, settings: Mapping[str, Setting]
) -> str | Refusal:
    if setting is None:
        return Refusal(
            code=RefusalCode.UNKNOWN_CONFIG,
            field=f"configs.{name[:100]}",
            detail=f"unknown setting {name[:100]!r}",
            hint=f"known: {', '.join(honoured_names(settings))}",
        )
    try:
        written = milliseconds(value) if name.endswith(".ms") else None
        return checked_value(setting, value if written is None else str(written))
    except BadValueError as error:
        return Refusal(
            code=RefusalCode.INVALID_CONFIG,
            field=f"configs.{name}",
            detail=f"{name} {error}",
            hint=_IN_MS if setting.hint is None and name.endswith(".ms") else setting.hint,
        )


def honoured_names(settings: Mapping[str, Setting]) -> list[str]:
    """Return the names of the settings whose values change something."""
    return sorted(name for name, setting in settings.items() if setting.is_honoured)


def changed_configs(
    before: Mapping[str, str], changes: Mapping[str, str | None], settings: Mapping[str, Setting]
) -> dict[str, str] | Refusal:
    """Return the settings, by name, with the changes: set (str) or unset (None). Any known one can be unset,
    as in Kafka; an unknown name is refused there, too: a typing error must not pass for "done"."""
    wanted = {name: value for name, value in changes.items() if value is not None}
    unknown = {name: "" for name in changes if name not in settings}
    checked = checked_configs({**wanted, **unknown}, settings)
    if isinstance(checked, Refusal):
        return checked
    kept = {name: value for name, value in before.items() if name not in changes}
    return dict(sorted({**kept, **checked}.items()))


def checked_value(setting: Setting, text: str) -> str:
    """Return the value in its one spelling: as Kafka does, spaces around it and the case of a bool do not
    count. Raise BadValueError if the setting does not take it."""
    if setting.is_refused:
        raise BadValueError("can't be set")
    value = _spelled(setting.kind, text.strip())
    shown = repr(text[:40])
    if setting.is_read_only:
        if value is None or value != _spelled(setting.kind, setting.default or ""):
            raise BadValueError(f"must be {setting.default or 'empty'}, not {shown}")
        return value
    match setting.kind:
        case "int" | "double":
            if value is None:
                noun = "an integer" if setting.kind == "int" else "a number"
                raise BadValueError(f"must be {noun}, not {shown}")
            number = int(value) if setting.kind == "int" else float(value)
            if not setting.low <= number <= setting.high:
                raise BadValueError(f"must lie between {setting.low} and {setting.high}, not {value}")
        case "bool":
            if value is None:
                raise BadValueError(f"must be true or false, not {shown}")
        case "replicas":
            if value is None:
                raise BadValueError(f"must be a list of PARTITION:BROKER, or *, not {shown}")
        case "principals":
            if value is None:
                raise BadValueError(
                    f"must be User:NAME;User:NAME, of {PRINCIPALS_LENGTH_MAX} characters at most, not {shown}"
                )
        case _:
            if value not in setting.choices:
                raise BadValueError(
                    f"must be {' or '.join(choice or 'empty' for choice in setting.choices)}, not {shown}"
                )
    assert value is not None
    return value


def _spelled(kind: str, text: str) -> str | None:
    """Return the one spelling of a value, or None if it is not of this kind."""
    match kind:
        case "int":
            return str(int(text)) if _INTEGER.fullmatch(text) else None
        case "double":
            return str(float(text)) if _DOUBLE.fullmatch(text) else None
        case "bool":
            return text.lower() if text.lower() in ("true", "false") else None
        case "policies":
            return ",".join(sorted({item.strip() for item in text.split(",")}))
        case "principals":
            return _spelled_principals(text)
        case "replicas":
            items = ",".join(item.strip() for item in text.split(","))
            return items if _REPLICAS.fullmatch(items) else None
        case _:
            return text


def _spelled_principals(text: str) -> str | None:
    named = sorted({item.strip() for item in text.split(";")} - {""})
    are_users = all(
        item.startswith("User:") and item[5:].strip() == item[5:] != "" and item.isprintable()
        for item in named
    )
    return ";".join(named) if are_users and len(text) <= PRINCIPALS_LENGTH_MAX else None


def effective(name: str, topic: Mapping[str, str], cluster: Mapping[str, str]) -> str | None:
    """The value of a topic's setting: its override, the cluster's default, or ours."""
    setting = TOPIC_SETTINGS[name]
    if name in topic:
        return topic[name]
    if setting.cluster_name is not None and setting.cluster_name in cluster:
        return cluster[setting.cluster_name]
    return setting.default


def effective_min_insync_replicas(
    topic: Mapping[str, str], cluster: Mapping[str, str], *, replication_factor: int
) -> int:
    """Return the minimum, never above the replication factor. Unless it was set: a majority, so that an
    acknowledged record survives any one failure and two disjoint halves can't both acknowledge."""
    configured = effective("min.insync.replicas", topic, cluster)
    if configured is None:
        return replication_factor // 2 + 1
    return min(int(configured), replication_factor)


def check_lags(topic: Mapping[str, str], cluster: Mapping[str, str]) -> Refusal | None:
    """Refuse valid settings of a topic by which a record would have to be compacted before it may be."""
    least, most = (effective(name, topic, cluster) for name in (MIN_LAG, MAX_LAG))
    assert least is not None and most is not None
    if int(least) <= int(most):
        return None
    return Refusal(
        code=RefusalCode.INVALID_CONFIG,
        field=f"configs.{MIN_LAG if MIN_LAG in topic else MAX_LAG}",
        detail=f"{MIN_LAG} must be at most {MAX_LAG}, {most}, not {least}",
    )


def check_level(level: Level, configs: Mapping[str, str | None]) -> Refusal | None:
    """Refuse a setting that the release of a lower level does not know."""
    if configs.get(DELETED_RETENTION) is None or allows(level, KEPT_DELETED_TOPICS):
        return None
    return Refusal(
        code=RefusalCode.INVALID_CONFIG,
        field=f"configs.{DELETED_RETENTION}",
        detail=f"{DELETED_RETENTION} can't be set while the cluster's upgrade has not been finalized",
        hint="finalize it: `springtide upgrade finalize`",
    )


def is_unclean_election_allowed(topic: Mapping[str, str], cluster: Mapping[str, str]) -> bool:
    return effective("unclean.leader.election.enable", topic, cluster) == "true"


def is_deletion_protected(topic: Mapping[str, str]) -> bool:
    return topic.get(DELETION_PROTECTED, "false") == "true"


def is_leader_rebalance_enabled(cluster: Mapping[str, str]) -> bool:
    return cluster.get("auto.leader.rebalance.enable", "true") == "true"


def is_cluster_protected(cluster: Mapping[str, str]) -> bool:
    return cluster.get(CLUSTER_PROTECTED, "false") == "true"


def disk_reserve_percent(cluster: Mapping[str, str]) -> int:
    return int(cluster.get(DISK_RESERVE, "5"))
