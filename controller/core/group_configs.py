"""Operators' requests about groups' own settings (Kafka's resource type GROUP, KIP-848 and KIP-1240).

A group need not exist: its settings apply once there is one. Coordinators have bounds of their own, which
may be narrower than those here, and clamp what lies outside.
"""

from __future__ import annotations

from typing import Final

from controller.core.configs import changed_configs
from controller.core.draft import Draft
from controller.core.events import ConfigureGroup, GroupConfigured, Refusal, RefusalCode
from controller.core.records import Cause, GroupRecord
from controller.core.settings_table import GROUP_SETTINGS
from controller.core.topics import operator_change
from springtide.contract.groups import GROUP_ID_CHARS_MAX, GroupConfigs
from springtide.levels import CONSUMER_GROUPS, allows

GROUPS_MAX: Final = 10_000
"""Groups with settings of their own: a row each."""


def configure_group(draft: Draft, event: ConfigureGroup) -> GroupConfigured | Refusal:
    """Set (str) or unset (None) a group's own settings; those not named stay."""
    image, group_id = draft.image, event.group_id
    before = image.group_configs.get(group_id) or GroupConfigs(group_id=group_id)
    configs = changed_configs(before.configs, event.configs, GROUP_SETTINGS)
    if isinstance(configs, Refusal):
        return configs
    refusal = _refusal(draft, group_id, is_new=not before.configs and bool(configs))
    if refusal is not None:
        return refusal
    after = GroupConfigs(group_id=group_id, configs=configs)
    if after != before and not event.dry_run:
        draft.write(GroupRecord(group=after, change=operator_change(event, Cause.GROUP_CONFIGURED)))
    return GroupConfigured(configs=configs, dry_run=event.dry_run)


def _refusal(draft: Draft, group_id: str, *, is_new: bool) -> Refusal | None:
    image = draft.image
    if not 0 < len(group_id) <= GROUP_ID_CHARS_MAX:
        return Refusal(
            code=RefusalCode.INVALID_CONFIG,
            field="group_id",
            detail=f"a group with settings has an id of 1 to {GROUP_ID_CHARS_MAX} characters",
        )
    if is_new and not allows(image.level, CONSUMER_GROUPS):
        return Refusal(
            code=RefusalCode.INVALID_CONFIG,
            field="configs",
            detail="settings of groups can't be set while the cluster's upgrade has not been finalized",
            hint="finalize it: `springtide upgrade finalize`",
        )
    if is_new and len(image.group_configs) >= GROUPS_MAX:
        return Refusal(
            code=RefusalCode.INVALID_CONFIG,
            field="group_id",
            detail=f"{GROUPS_MAX} groups have settings of their own already",
            limit=GROUPS_MAX,
        )
    return None
