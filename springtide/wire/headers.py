"""The header in front of every request and response.

A request header's layout depends on the API and version that it begins with, so an unknown API or version is
found here. `UnsupportedApi` and `MalformedRequest` both tell the shell to close the connection, except for
ApiVersions (see apis.UnsupportedApi).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from . import shortcuts
from .apis import APIS, UnsupportedApi, response_header_version
from .compression import Buffer
from .primitives import MALFORMED_CAUSES, MalformedRequest, Reader, write_string

_FIXED = struct.Struct(">hhih")
_FIXED_BYTES = 8  # without the client id's length
_CORRELATION_ID = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """The header's fields. `body_position` is where in the frame the API's own bytes begin."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def decode_request_header(frame: Buffer) -> RequestHeader:
    """Return the header of one frame. Raise UnsupportedApi, or MalformedRequest if the bytes are not one.

    Any correlation id is accepted and echoed. The client id keeps its old form (int16 length) even in
    flexible headers, so that an ApiVersions request of a future version can be read.
    """
    usual = shortcuts.request_header(frame)
    if usual is not None:
        return tuple.__new__(RequestHeader, usual)
    try:
        api_key, api_version, correlation_id, client_id_bytes = _FIXED.unpack_from(frame)
        spec = APIS.get(api_key)
        if spec is None or not spec.version_min <= api_version <= spec.version_max:
            raise UnsupportedApi(api_key=api_key, api_version=api_version, correlation_id=correlation_id)
        position = _FIXED_BYTES + 2
        client_id = None
        if client_id_bytes >= 0:
            end = position + client_id_bytes
            if end > len(frame):
                raise MalformedRequest("client id exceeds the frame")
            client_id = str(frame[position:end], "utf-8")
            position = end
        elif client_id_bytes != -1:
            raise MalformedRequest(f"client id length {client_id_bytes}")
        if api_version >= spec.flexible_since:
            if frame[position] == 0:
                position += 1
            else:
                reader = Reader(frame, position)
                reader.skip_tagged_fields()
                position = reader.position
    except MALFORMED_CAUSES as error:
        raise MalformedRequest(f"request header: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def encode_request_header(
    *, api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Return the header of a request that we send."""
    out = bytearray(struct.pack(">hhi", api_key, api_version, correlation_id))
    write_string(out, client_id, is_flexible=False)
    if APIS[api_key].is_flexible(api_version):
        out.append(0)
    return bytes(out)


def decode_response_header(frame: Buffer, *, api_key: int, api_version: int) -> tuple[int, int]:
    """Return (correlation id, body position) of a response to a request that we sent."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        reader = Reader(frame, _CORRELATION_ID.size)
        if response_header_version(api_key, api_version):
            reader.skip_tagged_fields()
    except MALFORMED_CAUSES as error:
        raise MalformedRequest(f"response header: {error}") from error
    return correlation_id, reader.position
