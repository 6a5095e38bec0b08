"""The bounds that a server holds its clients to, as its configuration sets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PARTIAL_FRAME_MS_MAX: Final = 30_000
"""The time a frame may stay incomplete; the time its bytes take at PARTIAL_FRAME_BYTES_PER_MS is added."""


@dataclass(slots=True, kw_only=True)
class ServerLimits:
    """Kafka's names in the configuration: connections.max.idle.ms, max.connections, max.connections.per.ip,
    socket.request.max.bytes, queued.max.request.bytes."""

    connections_max: int = 10_000
    connections_per_ip_max: int = 10_000
    idle_ms_max: int = 600_000
    memory_bytes_max: int = 512 * 1024 * 1024
    partial_frame_ms_max: int = PARTIAL_FRAME_MS_MAX
    request_bytes_max: int = 100 * 1024 * 1024
