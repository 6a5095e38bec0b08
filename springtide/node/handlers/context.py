"""What a handler is given: one request, and the parts of its process that answers come from.

A handler decodes, asks, and completes the request's answer, now or later; it never awaits. That lets requests
of one connection run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from springtide.wire import codec
from springtide.wire.apis import response_header_version
from springtide.wire.framing import Chunk, encode_response_frame

if TYPE_CHECKING:
    from springtide.node.administration import Administration
    from springtide.node.cluster_view import ClusterView
    from springtide.node.connection import Answer
    from springtide.node.counters import NodeCounters


class Request:
    """One request: the header's fields, the frame with its body, and the place its answer goes to."""

    __slots__ = ("answer", "api_key", "api_version", "body_position", "correlation_id", "frame", "now_ms")

    def __init__(
        self,
        *,
        api_key: int,
        api_version: int,
        correlation_id: int,
        frame: memoryview,
        body_position: int,
        answer: Answer,
        now_ms: int,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.frame = frame
        self.body_position = body_position
        self.answer = answer
        #: Monotonic milliseconds at which it was started.
        self.now_ms = now_ms

    def decode(self) -> object:
        """The body by the general codec. Raises MalformedRequest."""
        message_type = codec.request_type(self.api_key, self.api_version)
        return codec.decode(message_type, self.frame, self.body_position)

    def reply(self, fields: Mapping[str, object]) -> None:
        """Answer with a message built from `fields` for the request's version: see codec.build."""
        message = codec.build(codec.response_type(self.api_key, self.api_version), fields)
        self.reply_chunks([codec.encode(message)])

    def reply_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Answer with an encoded body."""
        self.answer.complete(
            encode_response_frame(
                self.correlation_id,
                chunks,
                has_flexible_header=bool(response_header_version(self.api_key, self.api_version)),
            )
        )

    def reply_nothing(self) -> None:
        """Produce with acks=0 has no answer, but keeps its place in the order."""
        self.answer.complete(())


@dataclass(slots=True, kw_only=True)
class NodeContext:
    """What every process that speaks Kafka has for its handlers: the cluster as it knows it, the way to the
    controller, clocks and counters."""

    view: ClusterView
    #: Whether a FULL state has been applied since this process started.
    is_view_complete: Callable[[], bool]
    administration: Administration
    counters: NodeCounters
    wall_ms: Callable[[], int]
    mono_ms: Callable[[], int]
