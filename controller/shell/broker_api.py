"""The controller's endpoints for brokers and coordinators, and the long poll of the metadata stream.

Every answer to a readable body is 200 with the contract's `error` field: a broker needs the typed answer, and
a proxy's 503 must not be mistaken for one. Only a body that can't be read is 400, one that is too slow 408,
one that is too large 413.

The open poll is the broker's session connection. When it closes on the broker's side, the broker's listener
is asked whether a process is there (driver.on_session_closed): that, and no timeout, is how a killed process
is noticed. So the disconnect must reach this code the moment it happens: no middleware that buffers or wraps
`receive` may stand before it."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from functools import cache, partial
from inspect import cleandoc
from typing import Any, Final, Generic, NamedTuple, TypeVar

import anyio
import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from controller.core.events import (
    AllocateProducerIds,
    AppliedReply,
    BrokerApplied,
    Event,
    Heartbeat,
    NameWriter,
    RegisterMember,
    Report,
)
from controller.core.image import ClusterImage
from controller.core.records import MemberKind
from controller.core.stream import UpdateRange, build_range, check_poll, plan_update
from controller.shell.driver import ClusterDriver
from controller.shell.engine import Engine
from controller.shell.outcomes import NotActive, OutcomeUnknown, Overloaded, UnknownCluster
from springtide.contract.administration import AdminRequest
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerAnswer, ControllerError
from springtide.contract.lag_report import LagReport, LagReportResponse, ProblemCode
from springtide.contract.preflight import PreflightReport, PreflightResponse
from springtide.contract.session import (
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
)
from springtide.contract.updates import (
    NameWriterRequest,
    NameWriterResponse,
    PollRequest,
    ProducerIdsRequest,
    ProducerIdsResponse,
    UpdateBatch,
)
from springtide.contract.words import WireWord

log = logging.getLogger(__name__)

TAG: Final = "Brokers (internal)"
COORDINATORS_TAG: Final = "Coordinators (internal)"
SMALL_BODY_BYTES_MAX: Final = 64 * 1024
#: A poll carries the failures of a batch, a report the lag of every partition that its sender leads, a
#: preflight's what came of trying every peer, a coordinator's heartbeat groups, whose ids may be long.
LARGE_BODY_BYTES_MAX: Final = 32 * 1024 * 1024
#: Brokers give up on an answer long before; this is for other clients.
BODY_TIMEOUT_MS: Final = 30_000
POLL_WAIT_MS_MAX: Final = 60_000
RETRY_AFTER_MS: Final = 250
#: Encoded batches kept for the other brokers of the cluster: they ask for the same ranges within moments.
CACHED_BATCHES_MAX: Final = 8
CACHED_BATCH_BYTES_MAX: Final = 64 * 1024 * 1024
#: A longer answer is sent in slices of so many bytes.
SLICE_BYTES: Final = 256 * 1024

#: An answer's body, in order.
Pieces = tuple[bytes, ...]
Endpoint = Callable[..., Awaitable[Response]]

RequestBody = TypeVar(
    "RequestBody",
    RegisterRequest,
    HeartbeatRequest,
    PollRequest,
    LagReport,
    ProducerIdsRequest,
    NameWriterRequest,
    PreflightReport,
    AdminRequest,
)


class _Question(NamedTuple, Generic[RequestBody]):
    """The types that a plain endpoint takes and gives, and the event by which it asks the machine."""

    broker_id: int
    request_type: type[RequestBody]
    answer_type: type[ControllerAnswer]
    event: Callable[..., Event]


class BodyRefused(Exception):
    """The request's body can't be taken; `status` says why to HTTP."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def create_routers(engine: Engine) -> list[APIRouter]:
    """Return the endpoints for each kind of member, to be included in the application as they are."""
    return [_create_router(BrokerApi(engine, kind), kind) for kind in MemberKind]


def _create_router(api: BrokerApi, kind: MemberKind) -> APIRouter:
    tag = TAG if kind is MemberKind.BROKER else COORDINATORS_TAG
    router = APIRouter(prefix=f"/internal/clusters/{{cluster}}/{kind}s", tags=[tag])
    brokers, coordinators = (MemberKind.BROKER,), (MemberKind.COORDINATOR,)
    endpoints: tuple[tuple[Endpoint, type, type[ControllerAnswer], Iterable[MemberKind]], ...] = (
        (api.register, RegisterRequest, RegisterResponse, MemberKind),
        (api.heartbeat, HeartbeatRequest, HeartbeatResponse, MemberKind),
        (api.poll, PollRequest, UpdateBatch, MemberKind),
        (api.report, LagReport, LagReportResponse, brokers),
        (api.name_writer, NameWriterRequest, NameWriterResponse, coordinators),
        (api.allocate_producer_ids, ProducerIdsRequest, ProducerIdsResponse, MemberKind),
        (api.preflight, PreflightReport, PreflightResponse, brokers),
    )
    for endpoint, request_type, response_type, kinds in endpoints:
        if kind in kinds:
            name = endpoint.__name__.replace("_", "-")
            add_endpoint(router, name, endpoint, request_type, response_type, noun=kind)
    return router


def add_endpoint(
    router: APIRouter,
    name: str,
    endpoint: Endpoint,
    request_type: type,
    response_type: type,
    *,
    noun: str,
) -> None:
    """One verb of brokers or coordinators, with the contract's types in the document."""
    router.add_api_route(
        "/{broker_id}:" + name,
        endpoint,
        methods=["POST"],
        summary=_first_line(endpoint.__doc__),
        operation_id=f"{noun}_" + name.replace("-", "_"),
        response_class=Response,
        response_model=None,
        openapi_extra={"requestBody": {"required": True, **_content(request_type)}},
        responses={
            200: {"description": _first_line(response_type.__doc__), **_content(response_type)},
            400: {"description": "Unreadable body"},
            408: {"description": "Body too slow"},
            409: {"description": "Another broker's body"},
            413: {"description": "Body too large"},
        },
    )


class BrokerApi:
    """Parses, asks the engine, renders. kind: of those that call."""

    def __init__(self, engine: Engine, kind: MemberKind) -> None:
        self._engine = engine
        self._kind = kind
        self._batches = EncodedBatches()

    async def register(self, cluster: str, broker_id: int, request: Request) -> Response:
        """Begin or repeat a registration; idempotent per incarnation id."""
        event = partial(RegisterMember, kind=self._kind)
        return await self._ask(
            cluster, request, _Question(broker_id, RegisterRequest, RegisterResponse, event)
        )

    async def heartbeat(self, cluster: str, broker_id: int, request: Request) -> Response:
        """Renew the lease. Acknowledged only while this controller can prove that it is the active one."""
        event = partial(Heartbeat, received_ms=self._engine.clock.now_mono_ms(), kind=self._kind)
        return await self._ask(
            cluster, request, _Question(broker_id, HeartbeatRequest, HeartbeatResponse, event)
        )

    async def report(self, cluster: str, broker_id: int, request: Request) -> Response:
        """Follower lag, ISR proposals and replica problems, from a leader."""
        return await self._ask(cluster, request, _Question(broker_id, LagReport, LagReportResponse, Report))

    async def allocate_producer_ids(self, cluster: str, broker_id: int, request: Request) -> Response:
        """Reserve a block of producer ids that no other process was or will be given."""
        return await self._ask(
            cluster,
            request,
            _Question(broker_id, ProducerIdsRequest, ProducerIdsResponse, AllocateProducerIds),
        )

    async def name_writer(self, cluster: str, broker_id: int, request: Request) -> Response:
        """Name the writer under which the owner of a shard is about to open it."""
        return await self._ask(
            cluster, request, _Question(broker_id, NameWriterRequest, NameWriterResponse, NameWriter)
        )

    async def preflight(self, cluster: str, broker_id: int, request: Request) -> Response:
        """Take a broker's findings on its disk, clock and peers' listeners while brokers wait to be added."""
        try:
            body = await self._read(request, PreflightReport, broker_id)
        except BodyRefused as error:
            return refused_body(error)
        try:
            outcome = await self._engine.drivers.of(cluster).preflights.take(body)
            self._engine.drivers.of(cluster)  # the term may have ended meanwhile
            return self._render(PreflightResponse(error=outcome, controller_epoch=self._epoch()))
        except (NotActive, UnknownCluster) as error:
            return self._render(self._refusal(PreflightResponse, error))

    async def poll(self, cluster: str, broker_id: int, request: Request) -> Response:
        """Acknowledge the metadata stream up to a position, and wait for what follows it."""
        try:
            body = await self._read(request, PollRequest, broker_id)
        except BodyRefused as error:
            return refused_body(error)
        try:
            driver = self._engine.drivers.of(cluster)
            reply = await self._engine.submit(cluster, self._applied(body))
            assert isinstance(reply, AppliedReply)
            if reply.error is not ControllerError.NONE:
                return self._render(UpdateBatch(error=reply.error, controller_epoch=self._epoch()))
            return await self._wait_for_update(driver, body, request)
        except (NotActive, UnknownCluster, Overloaded, OutcomeUnknown) as error:
            return self._render(self._refusal(UpdateBatch, error))

    # -- the long poll --

    def _applied(self, body: PollRequest) -> BrokerApplied:
        return BrokerApplied(
            broker_id=body.broker_id,
            broker_epoch=body.broker_epoch,
            controller_epoch=body.applied_controller_epoch,
            sequence=body.applied_sequence,
            failures=body.failures,
            heartbeat_count=body.heartbeat_count,
            witness=body.witness,
            kind=self._kind,
            wall_ms=self._wall_ms(),
        )

    async def _wait_for_update(self, driver: ClusterDriver, body: PollRequest, request: Request) -> Response:
        answer: Pieces | None = None
        has_left = False
        not_active: NotActive | None = None
        wait_ms = min(max(0, body.wait_ms_max), POLL_WAIT_MS_MAX)
        with self._engine.clock.timeout_ms(wait_ms):
            answer = self._update(driver, body)
            if answer is None:
                async with anyio.create_task_group() as tasks:

                    async def notice_disconnect() -> None:
                        nonlocal has_left
                        while (await request.receive())["type"] != "http.disconnect":
                            pass
                        has_left = True
                        tasks.cancel_scope.cancel()

                    tasks.start_soon(notice_disconnect)
                    try:
                        while answer is None:
                            await driver.published_beyond(body.applied_sequence)
                            answer = self._update(driver, body)
                    except NotActive as error:  # Not through the task group, which would wrap it.
                        not_active = error
                    tasks.cancel_scope.cancel()
        if not_active is not None:
            raise not_active
        if has_left:
            driver.on_session_closed(body.broker_id, body.broker_epoch)
            return Response(status_code=499)  # The broker has left and reads no answer.
        if answer is None:
            # Nothing happened: the same position again, so that the broker sees a live controller.
            nothing = UpdateBatch(
                controller_epoch=self._epoch(),
                broker_epoch=body.broker_epoch,
                sequence=body.applied_sequence,
                cluster_configs=driver.published.image.configs,
                level=driver.published.image.level,
            )
            answer = (self._encode(nothing),)
        return _json(*answer)

    def _update(self, driver: ClusterDriver, body: PollRequest) -> Pieces | None:
        """The encoded answer, or None to go on waiting. Raise NotActive when the term is over: a batch is
        only worth something while we can prove that we are active (2.10, the controller's authority)."""
        if self._engine.role != "active" or driver is not self._engine.drivers.of(driver.cluster):
            raise NotActive(None)
        image = driver.published.image
        error = check_poll(image, body)
        if driver.machine.went_back is not None:
            error = ControllerError.METADATA_WENT_BACK
        if error is not ControllerError.NONE:
            return (self._encode(UpdateBatch(error=error, controller_epoch=self._epoch())),)
        update = plan_update(image, body, controller_epoch=self._epoch())
        if update is None:
            return None
        return self._batches.encode(
            driver.cluster,
            image,
            update,
            controller_epoch=self._epoch(),
            broker_epoch=body.broker_epoch,
            lineage=self._engine.lineage,
        )

    # -- one question, one answer --

    async def _ask(self, cluster: str, request: Request, question: _Question[RequestBody]) -> Response:
        answer_type = question.answer_type
        try:
            body = await self._read(request, question.request_type, question.broker_id)
        except BodyRefused as error:
            return refused_body(error)
        try:
            reply = await self._engine.submit(cluster, question.event(request=body, wall_ms=self._wall_ms()))
        except (NotActive, UnknownCluster, Overloaded, OutcomeUnknown) as error:
            return self._render(self._refusal(answer_type, error))
        assert isinstance(reply, answer_type), f"{type(reply).__name__} answers {type(body).__name__}"
        if isinstance(reply, HeartbeatResponse):
            if self._engine.role != "active":
                # Authority may have gone while the reply waited for a write.
                return self._render(self._refusal(answer_type, NotActive(None)))
            if reply.error is ControllerError.NONE:
                reply = msgspec.structs.replace(
                    reply,
                    preflight=self._engine.drivers.of(cluster).preflights.targets(question.broker_id),
                    wall_ms=self._engine.clock.own_wall_ms(),
                )
        return self._render(reply)

    async def _read(self, request: Request, body_type: type[RequestBody], broker_id: int) -> RequestBody:
        with self._engine.clock.timeout_ms(BODY_TIMEOUT_MS):
            return await read_body(request, body_type, broker_id)
        raise BodyRefused(408, f"the body took longer than {BODY_TIMEOUT_MS} ms")

    def _refusal(self, answer_type: type[ControllerAnswer], error: Exception) -> ControllerAnswer:
        match error:
            case UnknownCluster():
                code = ControllerError.UNKNOWN_CLUSTER
            case Overloaded():
                code = ControllerError.OPERATION_NOT_ATTEMPTED
            case OutcomeUnknown():
                code = ControllerError.OUTCOME_UNKNOWN
            case _:
                code = ControllerError.NOT_CONTROLLER
        active_url = error.active_url if isinstance(error, NotActive) else None
        epoch = self._epoch()
        if answer_type is RegisterResponse:
            return RegisterResponse(
                error=code,
                detail=str(error),
                controller_epoch=epoch,
                retry_after_ms=RETRY_AFTER_MS,
                active_controller=active_url,
            )
        return answer_type(error=code, controller_epoch=epoch, active_controller=active_url)

    def _render(self, answer: ControllerAnswer) -> Response:
        return _json(self._encode(answer))

    def _encode(self, answer: ControllerAnswer) -> bytes:
        return msgspec.json.encode(msgspec.structs.replace(answer, lineage=self._engine.lineage))

    def _epoch(self) -> ControllerEpoch:
        return self._engine.controller_epoch

    def _wall_ms(self) -> int:
        return self._engine.clock.now_wall_ms()


class EncodedBatches:
    """Ranges of the stream in their encoded form, for all brokers that ask for the same one.

    Batches of one range differ in `broker_epoch` alone. It is encoded before what is long, so it is put
    between two halves that are kept.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int, UpdateRange, int], tuple[bytes, bytes]] = OrderedDict()

    def encode(
        self,
        cluster: str,
        image: ClusterImage,
        update: UpdateRange,
        *,
        controller_epoch: ControllerEpoch,
        broker_epoch: BrokerEpoch,
        lineage: str = "",
    ) -> Pieces:
        """Return the batch in pieces, of which all brokers share the large one."""
        # A range holds the states of the image as it is now: the key names that moment as well.
        key = (cluster, controller_epoch, update, image.sequence)
        halves = self._kept.get(key)
        if halves is None:
            batch = build_range(
                image,
                update,
                controller_epoch=controller_epoch,
                broker_epoch=BrokerEpoch(_MARK),
                lineage=lineage,
            )
            head, found, tail = msgspec.json.encode(batch).partition(_MARKED_FIELD)
            assert found, "UpdateBatch has a broker_epoch"
            halves = self._kept[key] = (head, tail)
            self._trim()
        else:
            self._kept.move_to_end(key)
        head, tail = halves
        return head + b'"broker_epoch":%d' % broker_epoch, tail

    def _trim(self) -> None:
        """The newest stays, however large: it is about to be asked for again."""
        while len(self._kept) > 1 and (
            len(self._kept) > CACHED_BATCHES_MAX
            or sum(len(tail) for _, tail in self._kept.values()) > CACHED_BATCH_BYTES_MAX
        ):
            self._kept.popitem(last=False)


#: Stands for the broker epoch in a kept batch; the field comes before any that could contain the same text.
_MARK: Final = -1
_MARKED_FIELD: Final = b'"broker_epoch":-1'


async def read_body(request: Request, body_type: type[RequestBody], broker_id: int) -> RequestBody:
    """Read and check a body within its bound. Raise BodyRefused."""
    limit = (
        LARGE_BODY_BYTES_MAX
        if body_type in (HeartbeatRequest, PollRequest, LagReport, PreflightReport, AdminRequest)
        else SMALL_BODY_BYTES_MAX
    )
    received = bytearray()
    is_whole = False
    while not is_whole:
        # Not `request.stream()`: leaving that generator early would leave it to the garbage collector.
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise BodyRefused(400, "the connection was closed within the body")
        received += message.get("body", b"")
        if len(received) > limit:
            raise BodyRefused(413, f"the body is larger than {limit} bytes")
        is_whole = not message.get("more_body", False)
    try:
        body = msgspec.json.decode(received, type=body_type)
    except ValueError as error:
        raise BodyRefused(400, f"not a {body_type.__name__}: {error}") from error
    if body.broker_id != broker_id:
        raise BodyRefused(409, f"the path names broker {broker_id}, the body broker {body.broker_id}")
    return body


class _Sliced(Response):
    """A large answer, sent as fast as its reader takes it: the FULL state of a large cluster goes to every
    broker at once, and a copy for each would be more memory than the cluster itself."""

    def __init__(self, pieces: Pieces) -> None:
        length = sum(map(len, pieces))
        super().__init__(media_type="application/json", headers={"content-length": str(length)})
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in self._pieces:
            for start in range(0, len(piece), SLICE_BYTES):
                body = piece[start : start + SLICE_BYTES]
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _json(*pieces: bytes) -> Response:
    if sum(map(len, pieces)) > SLICE_BYTES:
        return _Sliced(pieces)
    return Response(b"".join(pieces), media_type="application/json")


def refused_body(error: BodyRefused) -> Response:
    title = "Another broker's body" if error.status == 409 else "Unreadable body"
    body = msgspec.json.encode({"title": title, "status": error.status, "detail": str(error)})
    # What was not read of the body would be taken for the next request.
    headers = {"Connection": "close"} if error.status in (408, 413) else None
    return Response(body, error.status, headers, media_type="application/problem+json")


def _first_line(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0].rstrip(".")


def _content(kind: type) -> dict[str, Any]:
    """OpenAPI content with the schema inline: the document's components belong to the people's half."""
    return {"content": {"application/json": {"schema": _schema(kind)}}}


_OPEN_ENUMS: Final = frozenset({ProblemCode.__name__, *(word.__name__ for word in WireWord.__subclasses__())})
"""Processes of a later release may send other words, which are taken."""


@cache
def _schema(kind: type) -> Any:
    """Return the schema, worked out once: in a simulation, many controllers live in one process."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    for name in _OPEN_ENUMS & components.keys():
        component = components[name]
        components[name] = {"type": "string", "examples": component.pop("enum"), **component}
    return _inline(schema, components)


def _inline(schema: Any, components: dict[str, Any]) -> Any:
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return _inline(components[reference.rpartition("/")[2]], components)
        if schema.get("contentEncoding") == "base64":
            schema = {**schema, "format": "byte"}  # tools that make requests know bytes by OpenAPI's own word
        if isinstance(doc := schema.get("description"), str):
            schema = {**schema, "description": cleandoc(doc)}  # Python does so itself from 3.13 on
        return {name: _inline(value, components) for name, value in schema.items()}
    if isinstance(schema, list):
        return [_inline(value, components) for value in schema]
    return schema
