"""The path of every operator's write: the active controller writes it down first and carries it out once.

    standby? -> 307      Idempotency-Key known? -> the stored answer
    intent into SQL (or 503) -> the service does it -> outcome to the outbox -> answer stored under the key

A refusal is an answer like any other: stored, replayed, and in the audit as refused. If the outcome is not
known, the key is released. The next attempt creates its resource with the same id, so that "it exists
already" can be distinguished from "an earlier attempt created it".

A protected cluster (`cluster.protected`, stored in ZooKeeper with the cluster) needs a reason and the ETag
of the resource that the write changes. Dry runs are exempt because they change nothing. Operations are
exempt, too: an operator who pauses or cancels one is in a hurry, and a running operation changes its ETag
all the time.

`Prefer: wait=30` (RFC 7240): an answer that names an operation is sent when the operation has ended, or
after this number of seconds, and shows the operation's state at that time. The status is 202 in both
cases; the operation goes on. A script can thus work without a loop.
"""

from __future__ import annotations

import hashlib
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Self, TypedDict, TypeVar, Unpack

import anyio
import msgspec
from fastapi import Depends, Header, Query, Request, Response
from starlette.types import Scope

from admin_api.http.answers import REPLAYED_HEADER, Answer, respond
from admin_api.http.bodies import JsonRequest
from admin_api.http.conditions import CONDITION_SCOPE_KEY, IF_MATCH, Precondition
from admin_api.http.problems import (
    ENGINE_FAILURES,
    MEDIA_TYPE,
    FieldProblem,
    ProblemError,
    problem_of,
    problem_response,
    refusal_problem,
    target_of,
)
from admin_api.http.rights import Right
from admin_api.http.services import Asking, Caller, Services, Serving
from admin_api.operations.models import accepted
from admin_api.settings import RETRY_AFTER_S
from controller.face.cluster import Engine, Entity, KnownCluster
from controller.face.commands import (
    Event,
    NotActive,
    NotInForce,
    OutcomeUnknown,
    Refusal,
    RefusalCode,
    Reply,
)
from controller.face.database import (
    Claimed,
    DatabaseRejected,
    DatabaseUnavailable,
    InProgress,
    OperationRow,
    OtherBody,
    Replay,
    get_operation,
    idempotency,
)
from controller.face.history import AuditedOutcome, Intent, RequestOutcome, append_intent
from controller.face.operations import FINISHED, OperationState, Work, encode_work, kind_of
from controller.face.policies import is_protected
from controller.face.settings import AUTHORIZATION_SETTINGS, CLUSTER_PROTECTED

_log = logging.getLogger(__name__)

#: Settings of a cluster that only an admin may change: those that protect it, and those that say what clients
#: may do.
ADMIN_SETTINGS: Final = frozenset({CLUSTER_PROTECTED, *AUTHORIZATION_SETTINGS})
_OPERATIONS_PREFIX: Final = "/operations/"
WAIT_SECONDS_MAX: Final = 60
APPLIED_HEADER: Final = "Preference-Applied"
_WAIT_POLL_MS: Final = 100
_PREFERENCES_MAX: Final = 20
_DIGITS_MAX: Final = 9


class EventFields(TypedDict):
    wall_ms: int
    actor: str
    reason: str | None
    request_id: str
    dry_run: bool


class OperationEventFields(EventFields):
    operation_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The data about the request that a service needs.

    seed: 22 characters, the same at every attempt under one Idempotency-Key; ids are derived from it.
    """

    actor: str
    reason: str | None
    request_id: str
    seed: str
    dry_run: bool
    wall_ms: int

    @property
    def operation_id(self) -> str:
        return f"op_{self.seed}"

    @property
    def event(self) -> EventFields:
        """Return the fields that every operator's event has from its request."""
        return {
            "wall_ms": self.wall_ms,
            "actor": self.actor,
            "reason": self.reason,
            "request_id": self.request_id,
            "dry_run": self.dry_run,
        }

    @property
    def operation_event(self) -> OperationEventFields:
        """Return the same for an event that begins the attempt's operation; a dry run begins none."""
        return {**self.event, "operation_id": None if self.dry_run else self.operation_id}


def first_revision(seed: str) -> int:
    """Return a first revision derived from the seed. What is made again under its old name must not match the
    ETag of the deleted one."""
    return int.from_bytes(hashlib.sha256(seed.encode("ascii")).digest()[:6], "big")


class ChangeFields(TypedDict):
    action: str
    body: Mapping[str, Any]
    reason: str | None
    is_operation: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The record that is written before anything is tried."""

    cluster: str
    #: Whether there must not be such a cluster yet.
    is_new_cluster: bool = False
    action: str
    entity: Entity = Entity.CLUSTER
    #: None: the cluster itself.
    entity_id: str | None = None
    body: Mapping[str, Any]
    reason: str | None = None
    topic: str | None = None
    partition: int | None = None
    brokers: tuple[int, ...] = ()
    #: Whether the attempt's operation id belongs in the audit row.
    is_operation: bool = False


Service = Callable[[Attempt], Awaitable[Answer]]


class Writing:
    """One write; a route says what is asked and which service carries it out."""

    def __init__(
        self, request: Request, services: Services, caller: Caller, *, key: str | None, dry_run: bool
    ) -> None:
        self._request = request
        self._services = services
        self._caller = caller
        self._key = key
        self._dry_run = dry_run

    def need(self, right: Right, cluster: str | None = None) -> None:
        """Raise forbidden unless the caller's role, or an ACL of the cluster, gives the right. For what only
        the body tells; dry runs are exempt."""
        if not self._dry_run:
            self._caller.need(self._request, right, cluster)

    def without_key(self) -> Writing:
        """Return the same write without its Idempotency-Key, for a body with a secret: what is stored under a
        key tells a hash of the body. Such a write must be safe to repeat by itself."""
        return Writing(self._request, self._services, self._caller, key=None, dry_run=self._dry_run)

    async def carry_out(self, asked: Asked, service: Service) -> Response:
        """Write the request down and carry it out. Raise cluster_not_found, reason_required,
        precondition_required."""
        services = self._services
        if not asked.is_new_cluster:
            services.engine.cluster(asked.cluster)
        if self._dry_run:
            return respond(self._request, await service(self._attempt(asked, services.ids.new_id())))
        # Checked before the key is claimed: the client can add what is missing and use the same key.
        check_write(services.engine, asked.cluster, self._request.scope, reason=asked.reason)
        if self._key is None:
            return await self._render(await self._try(asked, services.ids.new_id(), service))
        return await self._once(asked, self._key, service)

    async def try_here(self, asked: Asked, service: Service) -> Answer:
        """Carry out a write that did not come as its own HTTP request: no key is used, and the answer is
        returned as it is, also if it is a problem."""
        seed = self._services.ids.new_id()
        try:
            if self._dry_run:
                return await service(self._attempt(asked, seed))
            check_write(self._services.engine, asked.cluster, self._request.scope, reason=asked.reason)
            return await self._try(asked, seed, service)
        except ProblemError as refused:
            return self._as_answer(refused)

    async def _once(self, asked: Asked, key: str, service: Service) -> Response:
        services = self._services
        path = self._request.url.path
        scope = f"{self._caller.actor} {self._request.method} {path}"[: idempotency.SCOPE_CHARS_MAX]
        claim = await services.database.write(
            idempotency.claim,
            scope=scope,
            key=key,
            body_hash=_body_hash(self._request),
            fresh_seed=services.ids.new_id(),
            now_ms=services.clock.now_wall_ms(),
            expiry_ms=services.engine.clock.expiry_ms(),
        )
        match claim:
            case Replay(status=status, headers=headers, body=body):
                replayed = {**headers, REPLAYED_HEADER: "true"}
                return await self._render(Answer(status, body, replayed))
            case OtherBody():
                field = FieldProblem(header="Idempotency-Key", message="was used for another body")
                raise ProblemError("idempotency_key_reused", field.message, errors=(field,))
            case InProgress(retry_after_ms=retry_after_ms):
                raise ProblemError(
                    "idempotency_key_in_progress",
                    "the first request with this key has no answer yet",
                    headers={"Retry-After": str(min(RETRY_AFTER_S, -(-retry_after_ms // 1000)))},
                )
            case Claimed(seed=seed):
                pass
        kept = False
        answer: Answer | None = None
        try:
            answer = await self._try(asked, seed, service)
            if answer.status < 500 and answer.status != 307:
                await services.database.write(
                    idempotency.keep_answer,
                    scope=scope,
                    key=key,
                    status=answer.status,
                    headers=answer.headers,
                    body=answer.body,
                )
                kept = True
        except (DatabaseUnavailable, DatabaseRejected) as error:
            # Either nothing was done (the intent could not be written), or only the answer could not be
            # stored. In the second case the claim expires, and the next attempt finds its own id in the
            # cluster.
            _log.warning("idempotent_answer_not_kept key=%s cause=%s", key, error)
            if answer is None:
                raise
        finally:
            if not kept:
                with anyio.CancelScope(shield=True):
                    await self._release(scope, key)
        # This comes last: a repetition under the same key gets the stored answer, not the message that the
        # first attempt has no answer yet.
        return await self._render(answer)

    async def _release(self, scope: str, key: str) -> None:
        try:
            await self._services.database.write(idempotency.release, scope=scope, key=key)
        except (DatabaseUnavailable, DatabaseRejected) as error:
            _log.warning("idempotency_key_not_released cause=%s", error)

    async def _try(self, asked: Asked, seed: str, service: Service) -> Answer:
        """Write the intent, try the write, record the outcome. Failures that are answers are returned as
        answers."""
        services = self._services
        attempt = self._attempt(asked, seed)
        intent = Intent(
            cluster=asked.cluster,
            action=asked.action,
            entity=asked.entity,
            entity_id=asked.entity_id or asked.cluster,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            operation_id=attempt.operation_id if asked.is_operation else None,
            at_ms=attempt.wall_ms,
            body=asked.body,
            topic=asked.topic,
            partition=asked.partition,
            brokers=asked.brokers,
        )
        audit_id = await services.database.write(append_intent, intent=intent, recorded_at_ms=attempt.wall_ms)
        outcome = RequestOutcome.UNKNOWN
        code: str | None = None
        detail: str | None = None
        try:
            answer = await service(attempt)
            outcome, detail = RequestOutcome.SUCCEEDED, answer.detail
            return answer
        except ProblemError as refused:
            outcome, code, detail = RequestOutcome.REFUSED, refused.code, refused.detail
            return self._as_answer(refused)
        except ENGINE_FAILURES as failure:
            # ENGINE_FAILURES is EngineFailure's members as a tuple, which a type checker can't see.
            problem = problem_of(failure, target=target_of(self._request))  # type: ignore[arg-type]
            if isinstance(failure, NotInForce):
                outcome = RequestOutcome.SUCCEEDED
            elif not isinstance(failure, (OutcomeUnknown, DatabaseUnavailable, DatabaseRejected)):
                outcome = RequestOutcome.REFUSED
            code, detail = problem.code, problem.detail
            return self._as_answer(problem)
        finally:
            services.outbox.record_outcome(
                AuditedOutcome(
                    audit_id=audit_id,
                    outcome=outcome,
                    code=code,
                    detail=detail,
                    at_ms=services.clock.now_wall_ms(),
                )
            )

    def _attempt(self, asked: Asked, seed: str) -> Attempt:
        return Attempt(
            actor=self._caller.actor,
            reason=asked.reason,
            request_id=self._caller.request_id,
            seed=seed,
            dry_run=self._dry_run,
            wall_ms=self._services.clock.now_wall_ms(),
        )

    def _as_answer(self, problem: ProblemError) -> Answer:
        path = self._request.url.path
        rendered = problem_response(problem, path=path, request_id=self._caller.request_id)
        return Answer(problem.status, bytes(rendered.body), problem.headers)

    async def _render(self, answer: Answer) -> Response:
        """Return the response, after waiting for the operation if the client prefers that. The answer stored
        under the key is the one from before the wait."""
        if answer.status < 300:
            seconds = wait_seconds(self._request.headers.getlist("prefer"))
            return respond(self._request, await wait_for_operation(self._services, answer, seconds))
        return Response(answer.body, answer.status, dict(answer.headers), media_type=MEDIA_TYPE)


def _body_hash(request: Request) -> str:
    """Return the hash of the body's meaning, the query and a condition. Another spelling of the same request
    has the same hash."""
    meaning = json.dumps(request.parsed, sort_keys=True) if isinstance(request, JsonRequest) else ""
    condition = "".join(f"\n{value}" for value in request.headers.getlist("if-match"))
    return hashlib.sha256(f"{request.url.query}\n{meaning}{condition}".encode()).hexdigest()


async def writing(
    *,
    request: Request,
    services: Serving,
    caller: Asking,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=idempotency.KEY_CHARS_MAX,
            pattern=r"^[!-~]+$",
            description=(
                "Makes repeating the request safe: for a day, the same key answers with the first answer. "
                "A uuid is a good key."
            ),
            examples=["6f0c4cf2-7e56-4d2b-9e1b-0d4f3a0b9c11"],
        ),
    ] = None,
    prefer: Annotated[
        str | None,
        Header(
            description=(
                "`wait=30`: what starts an operation answers when that has ended, or after so many seconds "
                "(at most 60) with how far it is."
            ),
            examples=["wait=30"],
        ),
    ] = None,
    dry_run: Annotated[
        bool, Query(description="Check everything, change nothing, and answer with what would be done.")
    ] = False,
) -> Writing:
    engine = services.engine
    if engine.role != "active":
        # Checked before anything is looked up: a standby's view is no reason to refuse a write. The active
        # controller in the view may be this one, from before or in the future, and redirecting a client to
        # this one would be a loop.
        raise NotActive(engine.leadership.elsewhere)
    return Writing(request, services, caller, key=idempotency_key, dry_run=dry_run)


Write = Annotated[Writing, Depends(writing)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChange(ABC):
    """A request to change one resource, under the client's condition."""

    services: Services
    write: Writing
    condition: Precondition

    @abstractmethod
    async def asked(self, **fields: Unpack[ChangeFields]) -> Asked:
        """Return what the audit records of a change of this resource; raise the problem if there is none."""

    async def carry_out(
        self,
        action: str,
        change: Callable[[Self, Attempt], Awaitable[Answer]],
        body: Mapping[str, Any],
        reason: str | None,
        *,
        is_operation: bool = False,
    ) -> Response:
        """Write the request down and carry the change out. is_operation: whether it begins an operation."""
        asked = await self.asked(action=action, body=body, reason=reason, is_operation=is_operation)
        return await self.write.carry_out(asked, partial(change, self))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange(ResourceChange):
    """The same of a resource that has a row of its own in a cluster."""

    cluster: str

    @property
    def view(self) -> KnownCluster:
        return self.services.engine.cluster(self.cluster)

    def check_settled(self, row: object, decided: object, *, version: str, what: str) -> None:
        """Raise precondition_failed unless the row, of this version, is what the machine has decided: none
        that changes just now, and none that is not there."""
        is_settled = row is not None and row == decided
        self.condition.check(version if is_settled else None, what=what)

    async def remove(self, event: Event, in_use: RefusalCode) -> None:
        """Submit the removal of the resource. Raise its refusal as a problem: one in use is named by the
        path, and no part of the body is wrong."""
        reply = await self.services.engine.submit(self.cluster, event)
        if isinstance(reply, Refusal):
            raise refusal_problem(
                msgspec.structs.replace(reply, field=None) if reply.code is in_use else reply
            )


Decided = TypeVar("Decided", bound=Reply)


async def submit(
    engine: Engine, cluster: str, event: Event, decided: type[Decided], *, pointer: str | None = None
) -> Decided:
    """Return the core's answer to the event. Raise its refusal as a problem. pointer: as for
    `refusal_problem`."""
    reply = await engine.submit(cluster, event)
    if isinstance(reply, Refusal):
        raise refusal_problem(reply, pointer=pointer)
    assert isinstance(reply, decided), reply
    return reply


def opened(
    services: Services, cluster: str, attempt: Attempt, work: Work, state: OperationState
) -> OperationRow:
    """Return the new operation's row. state: PREFLIGHT, RUNNING, or one in which the operation is already
    finished. The deadline has no meaning for work without a time limit, but is shown all the same."""
    return OperationRow(
        id=attempt.operation_id,
        kind=kind_of(work),
        cluster=cluster,
        state=state.value,
        actor=attempt.actor,
        reason=attempt.reason,
        request_id=attempt.request_id,
        created_at_ms=attempt.wall_ms,
        started_at_ms=None if state is OperationState.PREFLIGHT else attempt.wall_ms,
        finished_at_ms=services.clock.now_wall_ms() if state in FINISHED else None,
        deadline_at_ms=attempt.wall_ms + services.settings.preflight_deadline_ms,
        body=encode_work(work),
    )


async def follow(
    services: Services, cluster: str, attempt: Attempt, work: Work, state: OperationState
) -> Answer:
    """Store the operation for work that has begun, and answer 202 with it."""
    row = opened(services, cluster, attempt, work, state)
    await services.operations.follow(row)
    return accepted(row)


async def begun_before(services: Services, attempt: Attempt) -> Answer | None:
    """Return the answer if an earlier attempt under the same Idempotency-Key began the operation and its
    answer was lost."""
    row = await services.database.read(get_operation, operation_id=attempt.operation_id)
    return None if row is None else accepted(row)


def check_write(engine: Engine, cluster: str, scope: Scope, *, reason: str | None) -> None:
    """Raise reason_required or precondition_required if the write lacks them. The resource need not exist; a
    later check finds that."""
    if not is_protected(engine, cluster):
        return
    if reason is None or not reason.strip():
        is_in_query = scope["method"] == "DELETE"
        field = FieldProblem(
            parameter="reason" if is_in_query else None,
            pointer=None if is_in_query else "/reason",
            message="is needed: the cluster is protected",
        )
        raise ProblemError("reason_required", f"cluster {cluster!r} is protected", errors=(field,))
    condition: Precondition | None = scope.get(CONDITION_SCOPE_KEY)
    if (
        condition is not None
        and condition.header is None
        and not scope["path"].startswith(_OPERATIONS_PREFIX)
    ):
        field = FieldProblem(header=IF_MATCH, message="is needed: the cluster is protected")
        raise ProblemError("precondition_required", f"cluster {cluster!r} is protected", errors=(field,))


def check_is_planned(engine: Engine, cluster: str) -> None:
    """Raise approval_required if the cluster is protected: only planned and approved moves are allowed
    there."""
    if is_protected(engine, cluster):
        raise ProblemError("approval_required", f"cluster {cluster!r} is protected")


def wait_seconds(fields: Iterable[str]) -> int:
    """Return the seconds that the Prefer header fields ask for, at most a minute; 0 if none can be read. The
    first of several counts."""
    preferences = [item for field in fields for item in field.split(",")][:_PREFERENCES_MAX]
    for preference in preferences:
        name, _, value = preference.partition(";")[0].partition("=")
        digits = value.strip().strip('"')
        if name.strip().lower() == "wait" and digits.isascii() and digits.isdigit():
            return min(int(digits[:_DIGITS_MAX]), WAIT_SECONDS_MAX)
    return 0


async def wait_for_operation(services: Services, answer: Answer, seconds: int) -> Answer:
    """Return the answer, or its new state once its operation has ended. An operation that can't be read is
    not waited for."""
    operation_id = answer.headers.get("Location", "").removeprefix("/operations/")
    if answer.status != 202 or not operation_id or not seconds:
        return answer
    applied = {APPLIED_HEADER: f"wait={seconds}"}
    deadline_ms = services.clock.now_mono_ms() + seconds * 1000
    while True:
        try:
            row = await services.database.read(get_operation, operation_id=operation_id)
        except (DatabaseUnavailable, DatabaseRejected):
            return answer
        if row is None:
            return answer
        ended = row.state in FINISHED
        if ended or services.clock.now_mono_ms() >= deadline_ms or services.engine.role != "active":
            latest = accepted(row)
            return Answer(answer.status, latest.body, {**answer.headers, **applied})
        await services.clock.sleep_ms(_WAIT_POLL_MS)
