"""Writes springtide/wire/messages.py, a class for each message, from kio's definitions of Kafka's messages.

    python -m tests.kit.springtide.wire_classes

kio has one dataclass a version. They are merged into one class for all versions that are served. A duration
is named with its unit again, as in Kafka's own definitions. Every field has a default, as in Kafka's own
classes: that of its definition, else zero, empty or, where it may be null, null.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin

from kio.index import load_request_schema, load_response_schema

from springtide.wire.apis import APIS, ApiKey, ApiSpec
from tests.kit.springtide import list_offsets_v0

ROOT = Path(__file__).parents[3]
MODULE = ROOT / "springtide" / "wire" / "messages.py"
MARK = "Written by `python -m tests.kit.springtide.wire_classes`; not by hand."
_BEFORE_KIO = (ApiKey.LIST_OFFSETS, 0)

_NAMES = {
    "bool": "Bool", "int8": "Int8", "int16": "Int16", "uint16": "UInt16", "int32": "Int32", "int64": "Int64",
    "float64": "Float64", "error_code": "Error", "uuid": "Uuid", "string": "String", "bytes": "Bytes",
    "records": "Bytes", "timedelta_i32": "Int32", "timedelta_i64": "Int64", "datetime_i64": "Int64",
}  # fmt: skip
_ZEROS = {
    "Bool": "False",
    "Float64": "0.0",
    "Error": "ErrorCode.NONE",
    "Uuid": "None",
    "String": '""',
    "Bytes": 'b""',
}


class Fact(NamedTuple):
    """A field in one version."""

    name: str
    kind: str  # a name of springtide.wire.fields, or of a nested class
    nested: type[Any] | None
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: str  # as source text


class Field(NamedTuple):
    """A field in all versions that have it."""

    fact: Fact  # of the newest version
    versions: tuple[int, ...]
    null_versions: tuple[int, ...]


def request_of(api_key: int, version: int) -> type[Any]:
    """Return kio's class of a request."""
    if (api_key, version) == _BEFORE_KIO:
        return list_offsets_v0.OldListOffsetsRequest
    return load_request_schema(api_key, version)


def response_of(api_key: int, version: int) -> type[Any]:
    """Return kio's class of an answer."""
    if (api_key, version) == _BEFORE_KIO:
        return list_offsets_v0.OldListOffsetsResponse
    return load_response_schema(api_key, version)


OWN_TAGS = {
    # The number of a coordinator's request, which rises with each: a marker is at times delivered twice, and
    # the second time after the producer's next transaction has begun.
    "WriteTxnMarkersWritableTxnMarker": "attempt: Annotated[Int64, In(1, tag=10_000)] = -1",
    # In which leadership each partition is asked: a leader knows no numbers of an earlier one.
    "WriteTxnMarkersWritableTxnMarkerTopic": (
        "leader_epochs: Annotated[tuple[Int32, ...], In(1, tag=10_000)] = ()"
    ),
    # Who the producer is, for people: the controller asks coordinators.
    "DescribeTransactionsTransactionState": (
        'client_id: Annotated[String, In(0, tag=10_000)] = ""\n    '
        'client_host: Annotated[String, In(0, tag=10_001)] = ""'
    ),
}
"""Tagged fields that Kafka does not know, and passes over. Their tags are far above Kafka's."""


def versions_of(spec: ApiSpec) -> range:
    """Return the versions that are served."""
    return range(spec.served_since, spec.version_max + 1)


def our_name(field: dataclasses.Field[Any]) -> str:
    """Return the name of a field in our classes: kio drops the unit of a duration or time."""
    is_time = field.metadata.get("kafka_type") in ("timedelta_i32", "timedelta_i64", "datetime_i64")
    return f"{field.name}_ms" if is_time else field.name


def _fact(field: dataclasses.Field[Any]) -> Fact:
    declared: Any = field.type
    is_nullable = False
    if get_origin(declared) is UnionType:
        is_nullable = NoneType in get_args(declared)
        (declared,) = (part for part in get_args(declared) if part is not NoneType)
    is_array = get_origin(declared) is tuple
    if is_array:
        declared = get_args(declared)[0]
        if get_origin(declared) is UnionType:  # tuple[UUID | None, ...]
            (declared,) = (part for part in get_args(declared) if part is not NoneType)
    nested: type[Any] | None = declared if dataclasses.is_dataclass(declared) else None  # type: ignore[assignment]
    kind = (
        declared.__name__.removeprefix("Old") if nested is not None else _NAMES[field.metadata["kafka_type"]]
    )
    has_null = is_nullable and (is_array or kind not in ("Uuid", "Int64"))
    return Fact(
        name=our_name(field),
        kind=kind,
        nested=nested,
        is_array=is_array,
        is_nullable=has_null,
        tag=field.metadata.get("tag"),
        default=_default(field, kind, is_array=is_array, is_nested=nested is not None, has_null=has_null),
    )


def _default(
    field: dataclasses.Field[Any], kind: str, *, is_array: bool, is_nested: bool, has_null: bool
) -> str:
    value = field.default
    if value is dataclasses.MISSING:
        if has_null:
            return "None"
        if is_array:
            return "()"
        return f"{kind}()" if is_nested else _ZEROS.get(kind, "0")
    if is_nested and not is_array and value is not None:
        assert value == type(value)(), field
        return f"{kind}()"
    match value:
        case datetime.timedelta():
            return str(value // datetime.timedelta(milliseconds=1))
        case None if kind == "Int64":  # a time
            return "-1"
        case str() | None | bool() | bytes() | tuple() | float():
            return '""' if value == "" else repr(value)
        case _ if kind == "Error":
            return f"ErrorCode.{value.name.upper()}"
        case _:
            return str(int(value))


def merged(classes: Mapping[int, type[Any]]) -> list[Field]:
    """Return the fields of one class in all versions, in the order of the wire."""
    facts = {version: [_fact(field) for field in dataclasses.fields(one)] for version, one in classes.items()}
    order: list[str] = []
    for version in sorted(facts, reverse=True):
        place = 0
        for fact in facts[version]:
            if fact.name in order:
                place = order.index(fact.name) + 1
            else:
                order.insert(place, fact.name)
                place += 1
    fields = []
    for name in order:
        having = {version: fact for version in sorted(facts) for fact in facts[version] if fact.name == name}
        newest = having[max(having)]
        for version, fact in having.items():
            same = newest._replace(nested=fact.nested, is_nullable=fact.is_nullable, default=fact.default)
            assert fact == same, f"{classes[version]}.{name} changes its type"
            changes = fact.default != newest.default and fact.is_nullable == newest.is_nullable
            assert not changes, f"{classes[version]}.{name} changes its default"
        null = tuple(version for version, fact in having.items() if fact.is_nullable)
        assert list(null) == [version for version in having if null and version >= null[0]], name
        fields.append(Field(newest, tuple(having), null))
    return fields


class _Writer:
    """Writes the classes of all APIs."""

    def __init__(self) -> None:
        self.spec: ApiSpec
        self.classes: list[str] = []
        self.used: set[str] = set()
        self.names: dict[str, str] = {}

    def add(self, spec: ApiSpec) -> None:
        self.spec = spec
        for load, base in ((request_of, "Request"), (response_of, "Response")):
            top = {version: load(spec.api_key, version) for version in versions_of(spec)}
            self.names = {}
            self.write(f"{spec.api_key.kafka_name}{base}", top, f"{base}Message")

    def module(self) -> str:
        return "\n".join(
            [
                '"""The messages of every API, each class for all the versions that are served.',
                "",
                f'{MARK}"""',
                "",
                "from __future__ import annotations",
                "",
                "from typing import Annotated, ClassVar",
                "",
                "from springtide.wire.apis import ApiKey",
                "from springtide.wire.errors import ErrorCode",
                f"from springtide.wire.fields import {', '.join(sorted(self.used))}",
                "",
                "",
                "\n\n\n".join(self.classes),
                "",
            ]
        )

    def write(self, name: str, classes: Mapping[int, type[Any]], base: str) -> None:
        """Write a class, after those that it is made of."""
        self.used.add(base)
        fields = merged(classes)
        lines = []
        for field in fields:
            kind = field.fact.kind
            if field.fact.nested is not None:
                kind = self.nested(name, field.fact.name, classes)
            lines.append(self.line(field, kind, classes))
        if name in OWN_TAGS:
            self.used |= {"In", *re.findall(r"\b(?:Int\d+|String)\b", OWN_TAGS[name])}
            lines.append(f"    {OWN_TAGS[name]}")
        api = (
            [f"    API: ClassVar[ApiKey] = ApiKey.{self.spec.api_key.name}"] if base != "MessagePart" else []
        )
        head = f"class {name}({base}, frozen=True, kw_only=True):"
        docstring = "" if api or lines else '    """Has no fields."""'
        self.classes.append("\n".join([head, *api, *lines, *filter(None, [docstring])]))

    def nested(self, owner: str, field: str, classes: Mapping[int, type[Any]]) -> str:
        """Write the class of a field, unless it has been, and return its name."""
        inside = {
            version: fact.nested
            for version, one in classes.items()
            for fact in map(_fact, dataclasses.fields(one))
            if fact.name == field and fact.nested is not None
        }
        theirs = inside[max(inside)].__name__.removeprefix("Old")
        if theirs not in self.names:
            api = self.spec.api_key.kafka_name
            name = theirs if theirs.startswith(api) else f"{api}{theirs}"
            is_taken = any(one.startswith(f"class {name}(") for one in self.classes)
            self.names[theirs] = f"{owner}{theirs}" if is_taken else name
            self.write(self.names[theirs], inside, "MessagePart")
        return self.names[theirs]

    def line(self, field: Field, kind: str, classes: Iterable[int]) -> str:
        """Return the line of a field."""
        fact = field.fact
        default = fact.default.replace(f"{fact.kind}()", f"{kind}()") if fact.nested else fact.default
        if fact.nested is None:
            is_plain_null = fact.is_nullable and not fact.is_array
            kind = f"Nullable{kind}" if is_plain_null else kind
            self.used.add(kind)
        declared = f"tuple[{kind}, ...]" if fact.is_array else kind
        if fact.is_nullable and (fact.is_array or fact.nested is not None):
            declared = f"{declared} | None"
        every, own = sorted(classes), field.versions
        assert list(own) == [one for one in every if own[0] <= one <= own[-1]], f"{fact.name} comes back"
        marks = []
        if own[0] != every[0]:
            marks.append(str(own[0]))
        if own[-1] != every[-1]:
            marks.append(f"until={own[-1]}")
        if fact.tag is not None:
            marks.append(f"tag={fact.tag}")
        if field.null_versions and field.null_versions[0] != own[0]:
            marks.append(f"null_since={field.null_versions[0]}")
        if marks:
            self.used.add("In")
            declared = f"Annotated[{declared}, In({', '.join(marks)})]"
        return f"    {fact.name}: {declared} = {default}"


def module() -> str:
    """Return the text of the module, as `ruff` leaves it."""
    writer = _Writer()
    for spec in APIS.values():
        writer.add(spec)
    with TemporaryDirectory() as folder:
        path = Path(folder, MODULE.name)
        path.write_text(writer.module(), encoding="utf-8")
        for what in (["check", "--fix", "--select", "I"], ["format"]):
            line = [sys.executable, "-m", "ruff", *what, "--quiet", "--config", "pyproject.toml", folder]
            subprocess.run(line, cwd=ROOT, check=True)
        return path.read_text(encoding="utf-8")


def main() -> None:
    MODULE.write_text(module(), encoding="utf-8")


if __name__ == "__main__":
    main()
