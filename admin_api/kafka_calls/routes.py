"""POST /internal/clusters/{cluster}/brokers/{broker_id}:administer, and of coordinators

The gate lets brokers in and exempts their requests from read-only mode, because leases and elections must go
on. This request is nevertheless an operator's, so this route checks both. Read-only mode refuses a write. A
controller that uses tokens refuses a write, too, unless the broker names the principal, which it has verified
and which the cluster's authorizer allowed to do this, or `--kafka-administration` is set. Reads are always
answered.
"""

from __future__ import annotations

import re
from typing import Final, assert_never

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import Response

from admin_api.http.problems import REQUEST_ID_SCOPE_KEY
from admin_api.http.services import Caller, Services
from admin_api.http.tokens import Principal, Role
from admin_api.http.writes import Writing
from admin_api.kafka_calls import configs, elections, reassignments, security, topics
from admin_api.kafka_calls.calls import Calls, Kafka, failed
from controller.face.commands import MetadataWentBack, NotActive, OutcomeUnknown, Overloaded, UnknownCluster
from controller.face.surroundings import (
    BODY_TIMEOUT_MS,
    COORDINATORS_TAG,
    TAG,
    BodyRefused,
    add_endpoint,
    read_body,
    refused_body,
)
from springtide.contract.administration import (
    FIRST_USE,
    AdminCall,
    AdminOutcome,
    AdminRequest,
    AdminResponse,
    AlterAclsCall,
    AlterConfigsCall,
    AlterQuotasCall,
    AlterReassignmentsCall,
    AlterScramCall,
    CreatePartitionsCall,
    CreateTopicsCall,
    DeleteRecordsCall,
    DeleteTopicsCall,
    DescribeConfigsCall,
    ElectLeadersCall,
)
from springtide.contract.errors import ControllerError

#: How much of a principal's name the audit has: an actor's name has room for its address, too.
PRINCIPAL_CHARS_MAX: Final = 160
_CLIENT_ID: Final = re.compile(r"[A-Za-z0-9._@+-]{1,64}")


def create_kafka_calls_router(*, has_tokens: bool) -> APIRouter:
    """Return the router. has_tokens: whether the controller uses tokens."""
    router = APIRouter()

    async def administer(cluster: str, broker_id: int, request: Request) -> Response:
        """Carry out what a Kafka client asked the broker or coordinator to administer."""
        services: Services = request.app.state.services
        with services.clock.timeout_ms(BODY_TIMEOUT_MS) as scope:
            try:
                body = await read_body(request, AdminRequest, broker_id)
            except BodyRefused as error:
                return refused_body(error)
        if scope.cancelled_caught:
            return refused_body(BodyRefused(408, f"the body took longer than {BODY_TIMEOUT_MS} ms"))
        answer = await _carry_out(services, cluster, body, request, has_tokens=has_tokens)
        return Response(msgspec.json.encode(answer), media_type="application/json")

    for noun, tag in (("broker", TAG), ("coordinator", COORDINATORS_TAG)):
        of_noun = APIRouter(prefix=f"/internal/clusters/{{cluster}}/{noun}s", tags=[tag])
        add_endpoint(of_noun, "administer", administer, AdminRequest, AdminResponse, noun=noun)
        router.routes.extend(of_noun.routes)  # see create_app: the routes themselves, not a router
    return router


async def _carry_out(
    services: Services, cluster: str, body: AdminRequest, request: Request, *, has_tokens: bool
) -> AdminResponse:
    engine = services.engine
    try:
        if engine.role != "active":
            raise NotActive(engine.leadership.elsewhere)
        error = _check_broker(services, cluster, body)
        if error is not ControllerError.NONE:
            return AdminResponse(error=error, controller_epoch=engine.controller_epoch)
        refusal = _refusal(services, cluster, body, has_tokens=has_tokens)
        if refusal is not None:
            outcomes = [refusal] * _count(body.call)
        else:
            caller = _caller(body, request, has_tokens=has_tokens)

            def writing(dry_run: bool) -> Writing:
                return Writing(request, services, caller, key=None, dry_run=dry_run)

            is_authorized = body.principal is not None
            calls = Calls(services=services, cluster=cluster, writing=writing, is_authorized=is_authorized)
            outcomes = await _dispatch(calls, body.call)
    except NotActive as not_active:
        return AdminResponse(error=ControllerError.NOT_CONTROLLER, active_controller=not_active.active_url)
    except UnknownCluster:
        return AdminResponse(error=ControllerError.UNKNOWN_CLUSTER)
    except MetadataWentBack:
        return AdminResponse(error=ControllerError.METADATA_WENT_BACK)
    except Overloaded:
        return AdminResponse(error=ControllerError.OPERATION_NOT_ATTEMPTED)
    except OutcomeUnknown:
        return AdminResponse(error=ControllerError.OUTCOME_UNKNOWN)
    return AdminResponse(controller_epoch=engine.controller_epoch, outcomes=tuple(outcomes))


def _check_broker(services: Services, cluster: str, body: AdminRequest) -> ControllerError:
    """Return the error for a broker or coordinator that is not a member of this cluster now: it may not send
    requests for clients. Raises UnknownCluster."""
    image = services.engine.cluster(cluster).decided
    broker, coordinator = image.brokers.get(body.broker_id), image.coordinators.get(body.broker_id)
    if broker is not None:
        epoch = broker.broker_epoch
    elif coordinator is not None:
        epoch = coordinator.coordinator_epoch
    else:
        return ControllerError.BROKER_NOT_REGISTERED
    return ControllerError.NONE if epoch == body.broker_epoch else ControllerError.STALE_BROKER_EPOCH


def _refusal(
    services: Services, cluster: str, body: AdminRequest, *, has_tokens: bool
) -> AdminOutcome | None:
    if isinstance(body.call, DescribeConfigsCall):
        return None
    if isinstance(body.call, DeleteRecordsCall) and all(
        topics.is_permitted(services, cluster, records) for records in body.call.topics
    ):
        return None
    if isinstance(body.call, CreateTopicsCall) and body.call.on_first_use:
        # Who has set it lets clients make topics, with tokens or without.
        configs_now = services.engine.cluster(cluster).decided.configs
        if configs_now.get(FIRST_USE) != "true":
            return failed(Kafka.POLICY_VIOLATION, f"{FIRST_USE} is not set")
    elif has_tokens and body.principal is None and not services.settings.kafka_administration:
        return failed(
            Kafka.CLUSTER_AUTHORIZATION_FAILED,
            "this cluster is administered over REST, with tokens; the Kafka protocol is open to that where "
            "clients log in and the cluster has an authorizer",
        )
    if services.settings.read_only and not getattr(body.call, "validate_only", False):
        return failed(Kafka.POLICY_VIOLATION, "this controller is read-only")
    return None


def _count(call: AdminCall) -> int:
    match call:
        case ElectLeadersCall(partitions=None):
            return 1
        case ElectLeadersCall(partitions=partitions) if partitions is not None:
            return len(partitions)
        case AlterReassignmentsCall(partitions=wishes):
            return len(wishes)
        case AlterConfigsCall(resources=altered):
            return len(altered)
        case AlterAclsCall(create=created, delete=filters):
            return len(created) + len(filters)
        case AlterScramCall():
            return len(security.users_of(call))
        case AlterQuotasCall(entities=entities):
            return len(entities)
        case CreateTopicsCall() | DeleteTopicsCall() | DeleteRecordsCall() | CreatePartitionsCall():
            return len(call.topics)
        case _:
            return 0


def _caller(body: AdminRequest, request: Request, *, has_tokens: bool) -> Caller:
    """Return the caller. A principal was verified by the broker; the client's id is an unverified claim, as
    over REST without tokens. Where tokens are used, such a caller never has the role admin."""
    claimed = body.client_id or ""
    name = f"unverified:{claimed}" if _CLIENT_ID.fullmatch(claimed) else "anonymous"
    if body.principal is not None:
        shown = body.principal if body.principal.isprintable() else repr(body.principal)
        name = shown[:PRINCIPAL_CHARS_MAX]
    actor = f"{name}@{body.client_host[:64]}/kafka:{body.broker_id}"
    principal = Principal(actor, Role.OPERATOR) if has_tokens else None
    return Caller(actor, request.scope[REQUEST_ID_SCOPE_KEY], principal)


async def _dispatch(calls: Calls, call: AdminCall) -> list[AdminOutcome]:
    match call:
        case CreateTopicsCall():
            return await topics.create_topics(calls, call)
        case DeleteTopicsCall():
            return await topics.delete_topics(calls, call)
        case DeleteRecordsCall():
            return await topics.delete_records(calls, call)
        case CreatePartitionsCall():
            return await topics.create_partitions(calls, call)
        case AlterReassignmentsCall():
            return await reassignments.alter_reassignments(calls, call)
        case ElectLeadersCall():
            return await elections.elect_leaders(calls, call)
        case AlterConfigsCall():
            return await configs.alter_configs(calls, call)
        case DescribeConfigsCall():
            return configs.describe_configs(calls, call)
        case AlterAclsCall():
            return await security.alter_acls(calls, call)
        case AlterScramCall():
            return await security.alter_users(calls, call)
        case AlterQuotasCall():
            return await security.alter_quotas(calls, call)
        case _:
            assert_never(call)
