"""/clusters/{cluster}/config-changes: each change of settings, with the values before and after; and
its undoing.

A change is a row of the audit, and has its id. It is undone by setting what it changed back, as one further
change, unless one of the values was changed again since.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from msgspec.structs import replace
from pydantic import ConfigDict, Field

from admin_api.configs import service
from admin_api.configs.models import ConfigsAltered
from admin_api.configs.service import Address, holder_of
from admin_api.http.answers import ETAG_HEADERS, REPLAYED_HEADERS, Answer, done, show
from admin_api.http.conditions import IfMatch, Precondition
from admin_api.http.models import (
    INT64_MAX,
    BrokerId,
    ClusterPath,
    Reason,
    RequestBody,
    TopicName,
    View,
    ViewList,
    timestamp,
)
from admin_api.http.paging import Paged, decode_token
from admin_api.http.problems import CONDITION_PROBLEMS, FieldProblem, ProblemError, problems
from admin_api.http.rights import CHANGE_PROTECTION, Area, Right
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Services, Serving
from admin_api.http.writes import ADMIN_SETTINGS, Attempt, Write
from controller.face.cluster import Entity, group_name
from controller.face.history import (
    AuditRow,
    SettingChange,
    SettingChangeFilter,
    get_row,
    last_set,
    list_setting_changes,
    setting_changes,
)
from springtide.security.acls.model import Operation

router = APIRouter(route_class=StrictRoute, tags=["Audit"])


class ChangedConfig(View):
    name: str = Field(examples=["retention.ms"])
    before: str | None = Field(description="null: it was not set")
    after: str | None = Field(description="null: it was unset")


class ConfigChangeView(View):
    """One change of settings."""

    id: int = Field(description="of its row in the audit")
    entity: str = Field(
        description="`topic`, `broker`, `cluster` or `group`: whose settings", examples=["topic"]
    )
    topic: str | None = Field(examples=["orders"])
    broker_id: int | None
    group_id: str | None
    changes: list[ChangedConfig]
    actor: str
    reason: str | None
    at: str


class ConfigChangeList(ViewList[ConfigChangeView]): ...


class UndoConfigChange(RequestBody):
    """Set what the change has changed back."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "records went too early"}]})

    reason: Reason | None = None


def _view(row: AuditRow, changes: tuple[SettingChange, ...]) -> ConfigChangeView:
    return ConfigChangeView(
        id=row.id,
        entity=row.entity,
        topic=row.topic,
        broker_id=int(row.entity_id) if row.entity == Entity.BROKER else None,
        group_id=_group_of(row),
        changes=[ChangedConfig.of(change) for change in changes],
        actor=row.actor,
        reason=row.reason,
        at=timestamp(row.at_ms),
    )


async def filter_of(
    *,
    cluster: ClusterPath,
    topic: TopicName | None = None,
    broker: Annotated[BrokerId | None, Query(description="only changes of its own settings")] = None,
    group: Annotated[str | None, Query(description="only changes of this group's settings")] = None,
    defaults: Annotated[bool, Query(description="only changes of the cluster's own settings")] = False,
) -> SettingChangeFilter:
    return SettingChangeFilter(
        cluster=cluster,
        entity=Entity.CLUSTER if defaults else None,
        topic=topic,
        broker=broker,
        group=None if group is None else group_name(group),
    )


@router.get(
    "/clusters/{cluster}/config-changes",
    operation_id="listConfigChanges",
    summary="List changes of settings, newest first",
    response_model=ConfigChangeList,
    responses=problems("cluster_not_found", "audit_unavailable"),
)
async def list_them(
    *,
    request: Request,
    services: Serving,
    wanted: Annotated[SettingChangeFilter, Depends(filter_of)],
    name: Annotated[str | None, Query(max_length=249, description="only changes of this setting")] = None,
    paging: Paged,
) -> Response:
    """List what was changed, by whom, and the values before and after. With a `name`, a page may have fewer
    items than there is room for, and another page may still follow."""
    services.engine.cluster(wanted.cluster)
    if paging.token is not None:
        wanted = replace(wanted, below_id=decode_token(paging.token, int)[0])
    rows = await services.database.read(list_setting_changes, wanted=wanted, limit=paging.rows)
    page, token = paging.cut(rows, lambda row: [row.id])
    found = [(row, setting_changes(row)) for row in page]
    items = [
        _view(row, changes)
        for row, changes in found
        if changes and (name is None or any(change.name == name for change in changes))
    ]
    return show(request, ConfigChangeList(items=items, next_page_token=token))


@router.post(
    "/clusters/{cluster}/config-changes/{audit_id:int}:undo",
    operation_id="undoConfigChange",
    summary="Undo a change of settings",
    response_model=ConfigsAltered,
    responses=done(
        "The settings as they are; of a dry run, as they would be",
        "audit_row_not_found",
        "audit_unavailable",
        "config_changed_since",
        "cluster_not_found",
        "topic_not_found",
        "broker_not_found",
        "invalid_config",
        "unknown_config",
        "reserved_topic",
        "broker_without_tls",
        *CONDITION_PROBLEMS,
        headers=ETAG_HEADERS | REPLAYED_HEADERS,
    ),
)
async def undo_it(
    *,
    body: UndoConfigChange,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    audit_id: Annotated[int, Path(ge=0, le=INT64_MAX, examples=[1])],
) -> Response:
    """Set all settings that the change has changed back to what they were, or unset them. Refused (409),
    with the value and who changed it, if one of them was changed again since; If-Match is about the topic,
    broker, cluster or group whose settings they are."""
    row = await services.database.read(get_row, audit_id=audit_id)
    changes = () if row is None or row.cluster != cluster else setting_changes(row)
    if row is None or not changes:
        raise ProblemError("audit_row_not_found", f"{audit_id} is no change of settings in {cluster!r}")
    address = _address(row)
    write.need(_right(address, changes), cluster)
    configs = {change.name: change.before for change in changes}
    asked = service.asked_of(
        address,
        "undo_configs",
        {"audit_id": audit_id, "configs": configs, "reason": body.reason},
        body.reason,
    )
    return await write.carry_out(asked, partial(_undo, services, address, row, changes, condition))


def _address(row: AuditRow) -> Address:
    entity = Entity(row.entity)
    broker_id = int(row.entity_id) if entity is Entity.BROKER else None
    return Address(
        cluster=row.cluster, entity=entity, topic=row.topic, broker_id=broker_id, group_id=_group_of(row)
    )


def _group_of(row: AuditRow) -> str | None:
    """Return the group's id: the row's own is cut if it is long."""
    return str(row.before["group_id"]) if row.entity == Entity.GROUP and row.before is not None else None


def _right(address: Address, changes: tuple[SettingChange, ...]) -> Right:
    """Return what setting the values needs."""
    if address.topic is not None:
        return Right(Area.TOPIC, Operation.ALTER_CONFIGS, address.topic)
    if address.group_id is not None:
        return Right(Area.GROUP, Operation.ALTER_CONFIGS, address.group_id)
    if address.entity is Entity.CLUSTER and any(change.name in ADMIN_SETTINGS for change in changes):
        return CHANGE_PROTECTION
    return Right(Area.CLUSTER, Operation.ALTER_CONFIGS)


async def _undo(
    services: Services,
    address: Address,
    row: AuditRow,
    changes: tuple[SettingChange, ...],
    condition: Precondition,
    attempt: Attempt,
) -> Answer:
    later = await services.database.read(last_set, row=row, names={change.name for change in changes})
    holder = holder_of(services.engine, address)
    if holder.topic_id is not None and holder.topic_id != row.entity_id:
        raise ProblemError(
            "topic_not_found", f"the topic of this change was deleted; {address.what} is another"
        )
    if not holder.is_settled:
        raise ProblemError("precondition_failed", f"{address.what} is being changed")
    moved = [change for change in changes if holder.own.get(change.name) != change.after]
    if moved:
        raise _changed_since(address, moved, holder.own, later)
    configs = {change.name: change.before for change in changes}
    return await service.alter_configs(services, address, attempt, configs=configs, condition=condition)


def _changed_since(
    address: Address, moved: list[SettingChange], own: Mapping[str, str], later: Mapping[str, AuditRow]
) -> ProblemError:
    said = [_since(change, own.get(change.name), later.get(change.name)) for change in moved]
    first = moved[0]
    by = later.get(first.name)
    return ProblemError(
        "config_changed_since",
        f"of {address.what}, {said[0]}",
        errors=tuple(FieldProblem(parameter="audit_id", message=text) for text in said),
        facts={
            "name": first.name,
            "value": own.get(first.name),
            "actor": None if by is None else by.actor,
            "at": None if by is None else timestamp(by.at_ms),
            "audit_id": None if by is None else by.id,
        },
    )


def _since(change: SettingChange, value: str | None, later: AuditRow | None) -> str:
    now = "is not set" if value is None else f"is {value}"
    left = "unset" if change.after is None else change.after
    who = (
        "" if later is None else f": {later.actor} changed it at {timestamp(later.at_ms)}, in row {later.id}"
    )
    return f"{change.name} {now}, and the change had left it {left}{who}"
