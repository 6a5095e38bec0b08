"""Settings of groups: within their bounds, since the level that knows them, and told in the stream."""

from __future__ import annotations

from typing import Any

from controller.core.draft import Draft
from controller.core.events import ConfigureGroup, GroupConfigured, Refusal, RefusalCode
from controller.core.floor import Floors
from controller.core.group_configs import configure_group
from controller.core.image import ClusterImage
from controller.core.loss import LogEnds
from springtide.contract.groups import GROUP_ID_CHARS_MAX, GroupConfigs
from springtide.levels import CONSUMER_GROUPS, Level

SESSION = "consumer.session.timeout.ms"


def image_at(level: Level = CONSUMER_GROUPS.since) -> ClusterImage:
    image = ClusterImage()
    image.level = level
    return image


def configure(
    image: ClusterImage, group_id: str = "g", dry_run: bool = False, **configs: Any
) -> GroupConfigured | Refusal:
    """Carry a request out; the settings' dots are underscores."""
    draft = Draft(image, wall_ms=1, floors=Floors(LogEnds()))
    named = {f"consumer.{name.replace('_', '.')}": value for name, value in configs.items()}
    event = ConfigureGroup(wall_ms=1, actor="alice", group_id=group_id, configs=named, dry_run=dry_run)
    return configure_group(draft, event)


def test_settings_are_kept_by_group_and_go_with_the_last() -> None:
    image = image_at()
    assert configure(image, session_timeout_ms="50000") == GroupConfigured(configs={SESSION: "50000"})
    assert image.group_configs == {"g": GroupConfigs(group_id="g", configs={SESSION: "50000"})}
    configure(image, heartbeat_interval_ms="6 s")
    assert image.group_configs["g"].configs == {
        "consumer.heartbeat.interval.ms": "6000",
        SESSION: "50000",
    }
    configure(image, heartbeat_interval_ms=None, session_timeout_ms=None)
    assert image.group_configs == {}


def test_a_dry_run_changes_nothing() -> None:
    image = image_at()
    found = configure(image, dry_run=True, session_timeout_ms="50000")
    assert found == GroupConfigured(configs={SESSION: "50000"}, dry_run=True)
    assert image.group_configs == {}


def refused(found: GroupConfigured | Refusal) -> tuple[RefusalCode, str]:
    assert isinstance(found, Refusal)
    return found.code, found.detail


def test_what_lies_outside_the_bounds_or_is_unknown_is_refused() -> None:
    image = image_at()
    code, detail = refused(configure(image, session_timeout_ms="44999"))
    assert (code, "between 45000 and 60000" in detail) == (RefusalCode.INVALID_CONFIG, True)
    assert refused(configure(image, heartbeat_interval_ms="15001"))[0] is RefusalCode.INVALID_CONFIG
    assert refused(configure(image, assignment_interval_ms="-1"))[0] is RefusalCode.INVALID_CONFIG
    assert refused(configure(image, session="1"))[0] is RefusalCode.UNKNOWN_CONFIG
    for group_id in ("", "x" * (GROUP_ID_CHARS_MAX + 1)):
        assert (
            refused(configure(image, group_id, session_timeout_ms="50000"))[0] is RefusalCode.INVALID_CONFIG
        )


def test_below_the_level_nothing_is_stored() -> None:
    image = image_at(Level(CONSUMER_GROUPS.since - 1))
    assert "has not been finalized" in refused(configure(image, session_timeout_ms="50000"))[1]
    assert image.group_configs == {}
