"""The path of every operator's write: the active controller writes it down first and carries it out once.

    standby? -> 307      Idempotency-Key known? -> the stored answer
    intent into SQL (or 503) -> the service does it -> outcome to the outbox -> answer stored under the key

A refusal is an answer like any other: stored, replayed, and in the audit as refused. If the outcome is not
known, the key is released. The next attempt creates its resource with the same id, so that "it exists
already" can be distinguished from "an earlier attempt created it".
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import anyio
from fastapi import Depends, Header, Query, Request, Response

from admin_api.answers import Answer, respond
from admin_api.problem import MEDIA_TYPE, FieldProblem, ProblemError, problem_response
from admin_api.problem_handlers import ENGINE_FAILURES, problem_of, target_of
from admin_api.protection import check_write
from admin_api.services import Asking, Caller, Services, Serving
from admin_api.strict_route import BODY_SCOPE_KEY
from admin_api.tokens import Role
from admin_api.waiting import wait_for_operation, wait_seconds
from controller.audit import history
from controller.audit.change import Entity
from controller.audit.history import Intent, Outcome, RequestOutcome
from controller.core.events import Refusal
from controller.database import idempotency
from controller.database.idempotency import Claimed, InProgress, OtherBody, Replay
from controller.database.sql import DatabaseRejected, DatabaseUnavailable
from controller.shell.outcomes import NotActive, OutcomeUnknown

_log = logging.getLogger(__name__)

REPLAYED_HEADER = "Idempotency-Replayed"

REPLAYED_HEADERS = {
    REPLAYED_HEADER: {
        "description": "`true` when this is the stored answer to an earlier request with the same key",
        "schema": {"type": "string"},
    }
}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The record that is written before anything is tried."""

    cluster: str
    action: str
    entity: Entity
    entity_id: str
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

    def need(self, role: Role) -> None:
        """Raise forbidden unless the caller has the role. For writes that need more than an operator; dry
        runs are exempt."""
        if not self._dry_run:
            self._caller.need(role)

    async def carry_out(self, asked: Asked, service: Service) -> Response:
        services = self._services
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
            partial(
                idempotency.claim,
                scope=scope,
                key=key,
                body_hash=_body_hash(self._request),
                fresh_seed=services.ids.new_id(),
                now_ms=services.clock.now_wall_ms(),
                expiry_ms=services.engine.expiry_ms(),
            )
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
                    headers={
                        "Retry-After": str(min(services.settings.retry_after_s, -(-retry_after_ms // 1000)))
                    },
                )
            case Claimed(seed=seed):
                pass
        kept = False
        answer: Answer | None = None
        try:
            answer = await self._try(asked, seed, service)
            if answer.status < 500 and answer.status != 307:
                await services.database.write(
                    partial(
                        idempotency.keep_answer,
                        scope=scope,
                        key=key,
                        status=answer.status,
                        headers=answer.headers,
                        body=answer.body,
                    )
                )
                kept = True
        except (DatabaseUnavailable, DatabaseRejected) as error:
            # Either nothing was done (the intent could not be written), or only the answer could not be
            # stored. In the second case the claim expires, and the next attempt finds its own id in the
            # cluster.
            _log.warning("idempotent_answer_not_kept key=%r: %s", key, error)
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
            await self._services.database.write(partial(idempotency.release, scope=scope, key=key))
        except (DatabaseUnavailable, DatabaseRejected) as error:
            _log.warning("idempotency_key_not_released: %s", error)

    async def _try(self, asked: Asked, seed: str, service: Service) -> Answer:
        """Write the intent, try the write, record the outcome. Failures that are answers are returned as
        answers."""
        services = self._services
        attempt = self._attempt(asked, seed)
        intent = Intent(
            cluster=asked.cluster,
            action=asked.action,
            entity=asked.entity,
            entity_id=asked.entity_id,
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
        audit_id = await services.database.write(
            partial(history.append_intent, intent=intent, recorded_at_ms=attempt.wall_ms)
        )
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
            retry_after_s = services.settings.retry_after_s
            # ENGINE_FAILURES is EngineFailure's members as a tuple, which a type checker can't see.
            problem = problem_of(failure, target=target_of(self._request), retry_after_s=retry_after_s)  # type: ignore[arg-type]
            if not isinstance(failure, (OutcomeUnknown, DatabaseUnavailable, DatabaseRejected)):
                outcome = RequestOutcome.REFUSED
            code, detail = problem.code, problem.detail
            return self._as_answer(problem)
        finally:
            services.outbox.record_outcome(
                Outcome(
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
    body = request.scope.get(BODY_SCOPE_KEY, b"")
    meaning = json.dumps(json.loads(body), sort_keys=True) if body else ""
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
        raise NotActive(None if engine.active_url == engine.url else engine.active_url)
    return Writing(request, services, caller, key=idempotency_key, dry_run=dry_run)


Write = Annotated[Writing, Depends(writing)]

#: Codes of the catalogue for the core's refusals, where the names differ.
_REFUSALS = {
    "unknown_topic": "topic_not_found",
    "unknown_partition": "partition_not_found",
    "invalid_topic_id": "invalid_request",
}
#: The request's field names, where the core's differ.
_FIELDS = {"topic": "name", "throttled_rate": "throttle_bytes_per_s"}
#: Fields of the core that are path parameters here.
_PARAMETERS = {"partition": "partition", "broker_ids": "broker_id"}


def refusal_problem(refusal: Refusal, *, pointer: str | None = None) -> ProblemError:
    """Return the core's refusal as a problem, with the same words and numbers. pointer: the place in the
    body, if the body has fewer fields than the core was given."""
    code = _REFUSALS.get(refusal.code.value, refusal.code.value)
    errors: tuple[FieldProblem, ...] = ()
    if pointer is not None:
        errors = (FieldProblem(pointer=pointer, message=refusal.detail, limit=refusal.limit),)
    elif refusal.field in _PARAMETERS:
        parameter = _PARAMETERS[refusal.field]
        errors = (FieldProblem(parameter=parameter, message=refusal.detail, limit=refusal.limit),)
    elif refusal.field is not None:
        name, _, rest = refusal.field.partition(".")
        where = f"/{_FIELDS.get(name, name)}" + (
            f"/{rest.replace('~', '~0').replace('/', '~1')}" if rest else ""
        )
        errors = (FieldProblem(pointer=where, message=refusal.detail, limit=refusal.limit),)
    return ProblemError(code, refusal.detail, errors=errors, hint=refusal.hint, facts=refusal.facts)
