"""Messages by the numbers of their API and version, and by the names of their fields.

For those that choose an API or a version at run time: `request_type(3, 12)` is MetadataRequest in version
12, which `decode` reads, `build` makes and `encode` writes. Who knows the class uses typed.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from msgspec import defstruct

from . import messages
from .apis import ApiKey
from .compiler import fields_of
from .compression import Buffer
from .fields import ApiMessage, MessagePart, RequestMessage, ResponseMessage
from .primitives import REQUEST_ELEMENTS_MAX, OnRest
from .typed import read_message, write_message

M = TypeVar("M", bound=ApiMessage)
_ABSENT = object()


def request_class(api_key: int) -> type[RequestMessage]:
    """Return the class of an API's request."""
    found: type[RequestMessage] = _class(api_key, "Request")
    return found


def response_class(api_key: int) -> type[ResponseMessage]:
    """Return the class of an API's answer."""
    found: type[ResponseMessage] = _class(api_key, "Response")
    return found


def _class(api_key: int, kind: str) -> Any:
    return getattr(messages, f"{ApiKey(api_key).kafka_name}{kind}")


@cache
def request_type(api_key: int, api_version: int) -> type[RequestMessage]:
    """Return the class of a request in one version."""
    return _in_version(request_class(api_key), api_version)


@cache
def response_type(api_key: int, api_version: int) -> type[ResponseMessage]:
    """Return the class of an answer in one version."""
    return _in_version(response_class(api_key), api_version)


def _in_version(message_type: type[M], version: int) -> type[M]:
    namespace = {"VERSION": version}
    name = message_type.__name__
    found: Any = defstruct(name, [], bases=(message_type,), namespace=namespace, frozen=True, kw_only=True)
    return found  # type: ignore[no-any-return]


def version_of(message_type: type[ApiMessage]) -> int:
    """Return the version of a class that `request_type` or `response_type` has returned."""
    version: int = vars(message_type)["VERSION"]
    return version


def decode(
    message_type: type[M],
    buffer: Buffer,
    position: int = 0,
    *,
    elements_max: int = REQUEST_ELEMENTS_MAX,
    on_rest: OnRest | None = None,
) -> M:
    """Return the message that fills `buffer` from `position` on: see typed.read_message."""
    version = version_of(message_type)
    return read_message(message_type, version, buffer, position, elements_max=elements_max, on_rest=on_rest)


def encode(message: ApiMessage) -> bytes:
    """Return the bytes of a message. Values are trusted."""
    return write_message(message, version_of(type(message)))


def build(message_type: type[M], source: Mapping[str, object] | MessagePart) -> M:
    """Return a message of one version from values for any.

    `source` is a mapping of field names, or a message of another version; nested messages are mappings or
    messages too. What the version lacks is dropped, and what `source` lacks has its default. A name that no
    version has raises TypeError.
    """
    built: Any = _build(message_type, version_of(message_type), source)
    return built  # type: ignore[no-any-return]


def _build(message_type: type[MessagePart], version: int, source: object) -> MessagePart:
    if isinstance(source, Mapping):
        if wrong := source.keys() - set(message_type.__struct_fields__):
            raise TypeError(f"{message_type.__name__} has no {', '.join(sorted(wrong))}")
        given = source
    else:
        given = {name: getattr(source, name, _ABSENT) for name in message_type.__struct_fields__}
    values: dict[str, Any] = {}
    for field in fields_of(message_type, version):
        value: Any = given.get(field.name, _ABSENT)
        if value is _ABSENT:
            continue
        if value is not None and field.is_array:
            nested = field.nested
            value = tuple(value) if nested is None else tuple(_build(nested, version, one) for one in value)
        elif value is not None and field.nested is not None:
            value = _build(field.nested, version, value)
        values[field.name] = value
    return message_type(**values)
