"""What a consumer subscribes, out of its metadata: the only metadata of members that a coordinator reads."""

from __future__ import annotations

from springtide.wire.primitives import MALFORMED_CAUSES, REQUEST_ELEMENTS_MAX, MalformedRequest, Reader


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics of a consumer's subscription (ConsumerProtocolSubscription), None if it is not one.
    All versions begin with the version and the topics; what follows is the assignor's."""
    reader = Reader(metadata, elements_max=REQUEST_ELEMENTS_MAX)
    try:
        reader.int16()
        count = reader.present_array_count(is_flexible=False, element_bytes_min=2)
        return frozenset(reader.string(is_flexible=False) for _ in range(count))
    except (MalformedRequest, *MALFORMED_CAUSES):
        return None
