"""The input of a handler: one request, and the parts of its process that answers come from.

A handler decodes, asks, and completes the request's answer, now or later; it never awaits. So requests of one
connection run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import msgspec

from springtide.levels import UNTOLD, Feature, Level, allows
from springtide.node.first_use import FirstUses
from springtide.node.missing_topics import MissingTopics
from springtide.node.sharding import TRANSACTIONS_TOPIC
from springtide.security.acls.model import CLUSTER_NAME, Operation, ResourceType
from springtide.wire.apis import response_header_version
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import RequestMessage, ResponseMessage
from springtide.wire.framing import Chunk, encode_response_frame
from springtide.wire.primitives import OnRest
from springtide.wire.typed import error_codes, read_message, write_message

if TYPE_CHECKING:
    from springtide.contract.missing_topics import MissingTopic
    from springtide.node.administration import Administration
    from springtide.node.authorization import Authorizer, ClientRights
    from springtide.node.cluster_view import ClusterView
    from springtide.node.connection import PendingAnswer
    from springtide.node.counters import NodeCounters
    from springtide.node.producer_ids import ProducerIds
    from springtide.node.quotas.enforcement import Account, ClientQuotas
    from springtide.node.refusals import Refusals

M = TypeVar("M", bound=RequestMessage)


@dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """One request: the header's fields, the frame with its body, and the place its answer goes to. now_ms:
    monotonic, when it was started. rights: what its client may do; None: everything. account: what its client
    uses is charged to it; None: no quota holds. on_rest: takes how many bytes follow the message; None: there
    must be none. refusals: counts the errors of the answer."""

    api_key: int
    api_version: int
    correlation_id: int
    frame: memoryview
    body_position: int
    answer: PendingAnswer
    now_ms: int
    rights: ClientRights | None = None
    account: Account | None = None
    on_rest: OnRest | None = None
    refusals: Refusals | None = None

    @property
    def listener(self) -> str:
        """Return the name of the listener by which the client came."""
        return self.answer.connection.listener

    @property
    def principal(self) -> str:
        """Return who the client is, such as `User:alice`."""
        return self.answer.connection.principal

    def may(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str = CLUSTER_NAME,
        *,
        is_filter: bool = False,
    ) -> bool:
        """Return whether the client may do the operation on the resource: see ClientRights."""
        rights = self.rights
        return rights is None or rights.may(operation, resource_type, name, is_filter=is_filter)

    def may_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the client may do the operation on at least one resource of the type."""
        return self.rights is None or self.rights.may_any(operation, resource_type)

    def read(self, message_type: type[M]) -> M:
        """Return the body. Raise MalformedRequest."""
        return read_message(
            message_type, self.api_version, self.frame, self.body_position, on_rest=self.on_rest
        )

    def throttle_time_ms(self) -> int:
        """Return for how long the client is not read from after the answer that is made now (KIP-219)."""
        return 0 if self.account is None else self.account.throttle_time_ms()

    def reply(self, message: ResponseMessage, *, cause: str = "") -> None:
        """Answer with a message, in the request's version. cause: of its error, for people."""
        if self.account is not None and hasattr(message, "throttle_time_ms"):
            message = msgspec.structs.replace(message, throttle_time_ms=self.account.throttle_time_ms())
        self.note_errors(error_codes(message, self.api_version), cause)
        self.reply_chunks([write_message(message, self.api_version)])

    def note_errors(self, errors: Iterable[int], cause: str = "") -> None:
        """Count the errors of an answer that is encoded elsewhere."""
        if self.refusals is not None:
            self.refusals.note(self.api_key, errors, self.answer.connection, now_ms=self.now_ms, cause=cause)

    def reply_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Answer with an encoded body."""
        self.answer.complete(
            encode_response_frame(
                self.correlation_id,
                chunks,
                has_flexible_header=bool(response_header_version(self.api_key, self.api_version)),
            )
        )

    def turn_away(self) -> None:
        """End the connection instead of answering: the client asks another process, or by another one."""
        self.answer.connection.close()

    def reply_nothing(self) -> None:
        """Keep the request's place in the order without an answer: Produce with acks=0."""
        self.answer.complete(())


@dataclass(slots=True, kw_only=True)
class NodeContext:
    """The parts of a process that its handlers use: the known state of the cluster, the way to the
    controller, clocks and counters."""

    view: ClusterView
    #: Whether a FULL state has been applied since this process started.
    is_view_complete: Callable[[], bool]
    #: Whether what it has applied may be judged by: it has a FULL state, and its lease. A process that was
    #: paused for longer than that knows neither the ACLs of now nor whether they decide.
    may_judge: Callable[[], bool]
    administration: Administration
    authorizer: Authorizer
    producer_ids: ProducerIds
    counters: NodeCounters
    quotas: ClientQuotas
    wall_ms: Callable[[], int]
    mono_ms: Callable[[], int]
    first_uses: FirstUses = field(default_factory=FirstUses)
    missing_topics: MissingTopics = field(default_factory=MissingTopics)
    #: A client has asked who coordinates its transactions, and there was no topic.
    is_asked_for_transactions: bool = False
    #: The cluster's feature level, as it was told last.
    level: Callable[[], Level] = lambda: UNTOLD

    def wants_transactions(self) -> bool:
        """Return whether the topic of transactions is to be made."""
        return self.is_asked_for_transactions and self.view.topic_by_name(TRANSACTIONS_TOPIC) is None

    def told_missing(self) -> tuple[MissingTopic, ...]:
        """Return what the controller is told of topics that are not there."""
        return self.missing_topics.told(now_ms=self.mono_ms(), wall_ms=self.wall_ms())


def check_level(context: NodeContext, feature: Feature) -> ErrorCode:
    """Return why the cluster does not have a feature of coordinators, or NONE. A process that was just
    started does not know its cluster's level yet, and clients take UNSUPPORTED_VERSION for the last word:
    they ask for the coordinator again."""
    if allows(context.level(), feature):
        return ErrorCode.NONE
    return ErrorCode.UNSUPPORTED_VERSION if context.is_view_complete() else ErrorCode.NOT_COORDINATOR
