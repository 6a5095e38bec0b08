"""What REST's models are made of: names, numbers and times in requests, the bases of the models, and parts
of answers that several nouns share.

Kafka's rules for names apply where Kafka has one. They are written as patterns, so that a generated client
can check them, too. Times are RFC 3339 in requests and answers, milliseconds of the wall clock since 1970 UTC
in between.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Generic, Self, TypeVar

from fastapi import Path, Query
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

from controller.face.cluster import BrokerRegistration, Change, CoordinatorRegistration, LagRow
from controller.face.operations import endpoint_of
from controller.face.settings import ControllerOptions

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
REPLICATION_FACTOR_MAX: Final = ControllerOptions().replication_factor_max

#: The name becomes a znode and part of every path.
ClusterName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]*$", min_length=1, max_length=63),
    Field(
        description="letters, digits, '.', '_' and '-'; begins with a letter or a digit", examples=["prod"]
    ),
]

#: Kafka's rule, which excludes '.' and '..'.
TopicName = Annotated[
    str,
    StringConstraints(
        pattern=r"^(\.{0,2}[a-zA-Z0-9_-][a-zA-Z0-9._-]*|\.{3}[a-zA-Z0-9._-]*)$", min_length=1, max_length=249
    ),
    Field(description="letters, digits, '.', '_' and '-'; not '.' or '..'", examples=["orders"]),
]

BrokerId = Annotated[int, Field(ge=0, le=INT32_MAX, description="chosen by the operator", examples=[1])]
PartitionNumber = Annotated[int, Field(ge=0, le=INT32_MAX, examples=[0])]
ReplicationFactor = Annotated[int, Field(ge=1, le=REPLICATION_FACTOR_MAX)]
#: The brokers of one partition.
ReplicaIds = Annotated[list[BrokerId], Field(min_length=1, max_length=REPLICATION_FACTOR_MAX)]


def host_and_port(endpoint: str) -> tuple[str, int]:
    """Return host and port of a valid endpoint; brackets around an IPv6 address are not part of the host."""
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)


def _check_port(endpoint: str) -> str:
    if not 1 <= host_and_port(endpoint)[1] <= 65_535:
        raise ValueError("the port must lie between 1 and 65535")
    return endpoint


Endpoint = Annotated[
    str,
    StringConstraints(pattern=r"^([a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$", max_length=261),
    AfterValidator(_check_port),
    Field(description="host:port, as the broker advertises it", examples=["store4:9092"]),
]


def _check_ends(name: str) -> str:
    if name != name.strip():
        raise ValueError("must not begin or end with a space")
    return name


#: Of names that may have spaces inside: one at an end is not seen, and another name.
NoSpaceAround = AfterValidator(_check_ends)

Reason = Annotated[
    str,
    StringConstraints(max_length=1_000, strip_whitespace=True),
    Field(description="kept in the audit beside the change", examples=["capacity for Q4"]),
]
ReasonQuery = Annotated[Reason | None, Query(description="kept in the audit beside the change")]

ClusterPath = Annotated[ClusterName, Path(description="the cluster's name", examples=["prod"])]
BrokerPath = Annotated[BrokerId, Path(examples=[1])]
TopicPath = Annotated[TopicName, Path(description="the topic's name", examples=["orders"])]
PartitionPath = Annotated[PartitionNumber, Path(examples=[0])]
OperationPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["op_Zk1lV0pCTEq4nY6mXw2v3A"])]
PlanPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["plan_Zk1lV0pCTEq4nY6mXw2v3A"])]


def timestamp(at_ms: int) -> str:
    """Return the time in RFC 3339, in UTC, with milliseconds."""
    moment = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def optional_timestamp(at_ms: int | None) -> str | None:
    return None if at_ms is None else timestamp(at_ms)


def _check_zone(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time needs its zone: end it with Z")
    return moment


def _check_text(value: Any) -> Any:
    # Pydantic would read a bare number as a time since 1970, and guess between seconds and milliseconds.
    if isinstance(value, str) and value.lstrip("+-").replace(".", "", 1).isdigit():
        raise ValueError("must be RFC 3339, as in 2026-11-21T09:30:00Z")
    return value


#: A time in a request, in RFC 3339.
Moment = Annotated[
    datetime,
    BeforeValidator(_check_text),
    AfterValidator(_check_zone),
]


def _only_text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("must be RFC 3339, as in 2026-11-21T09:30:00Z")
    return value


#: The same in a body. Types are strict there, but JSON has no type for times.
BodyMoment = Annotated[Moment, Field(strict=False), BeforeValidator(_only_text)]
SinceTime = Annotated[
    Moment | None,
    Query(description="not before this time (RFC 3339)", examples=["2026-11-21T09:30:00Z"]),
]
UntilTime = Annotated[
    Moment | None, Query(description="before this time (RFC 3339)", examples=["2026-11-21T10:30:00Z"])
]


def milliseconds(moment: datetime | None) -> int | None:
    """Return the milliseconds of the wall clock since 1970 UTC."""
    return None if moment is None else int(moment.timestamp() * 1000)


class View(BaseModel):
    """The base of every answer."""

    # The schema is built on first use: a controller's start needs none of them.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, from_attributes=True)

    @classmethod
    def of(cls, found: object, **given: Any) -> Self:
        """Return the view of a value: each field that is not given has the value's attribute of the same
        name."""
        shown = {name: getattr(found, name) for name in cls.model_fields if name not in given}
        return cls(**shown, **given)


class RequestBody(BaseModel):
    """The base of every request body: no field is ignored, no type is guessed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


ItemView = TypeVar("ItemView", bound=View)


#: At once in a question for things by name.
NAMES_MAX: Final = 100
Search = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=249,
        description="only those with this in their name; small and capital letters are alike",
        examples=["ord"],
    ),
]


def is_found(search: str | None, *names: str | None) -> bool:
    """Return whether one of the names has the text in it."""
    return search is None or any(name is not None and search.lower() in name.lower() for name in names)


class ViewList(View, Generic[ItemView]):
    items: list[ItemView]
    next_page_token: str | None


class ListenerView(View):
    """A named listener of a broker or coordinator: clients that come by it are told this address."""

    name: str = Field(examples=["CLIENTS"])
    endpoint: str = Field(examples=["kafka1.example.com:9093"])
    protocol: str = Field(description="Kafka's security protocol", examples=["SSL"])


def listener_views(node: BrokerRegistration | CoordinatorRegistration) -> list[ListenerView]:
    return [
        ListenerView(name=name, endpoint=endpoint_of(found), protocol=found.protocol)
        for name, found in sorted(node.listeners.items())
    ]


class SilenceMark(View):
    """Why webhooks are told nothing of an alarm, and until when."""

    id: str = Field(examples=["sil_Zk1lV0pCTEq4nY6mXw2v3A"])
    reason: str = Field(examples=["its board is replaced"])
    actor: str
    until: str


class LastChange(View):
    """The reason for the resource's state: the change that wrote its row."""

    cause: str = Field(examples=["topic_created"])
    actor: str = Field(examples=["unverified:alice@10.0.0.7"])
    at: str = Field(examples=["2026-11-21T09:30:00.000Z"])
    reason: str | None = None
    request_id: str | None = None
    operation_id: str | None = None


class LagView(View):
    """A group's lag as its coordinator tells it every few seconds: what was left at the newest commits, or,
    where a commit is late, what is left now. Lists, details and metrics have the same figure."""

    lag: int | None = Field(
        description="records; null: not known, as on a standby and of a group without offsets", examples=[250]
    )
    lag_ms: int | None = Field(
        description="how long ago the log's end was where the group is: of the partition that is farthest "
        "behind",
        examples=[4_200],
    )
    lag_age_ms: int | None = Field(
        description="since the coordinator looked; null: it has not told this controller", examples=[1_300]
    )
    until_gone_ms: int | None = Field(
        description="until nothing is left, if the lag goes on shrinking as in the last minute; null: it "
        "does not shrink, or the group keeps up",
        examples=[None],
    )


def lag_fields(row: LagRow | None, now_ms: int) -> dict[str, int | None]:
    """Return the fields of a LagView. now_ms: monotonic."""
    if row is None:
        return dict.fromkeys(LagView.model_fields)
    return {
        "lag": row.records if row.records >= 0 else None,
        "lag_ms": row.ms if row.ms >= 0 else None,
        "lag_age_ms": max(0, now_ms - row.seen_ms),
        "until_gone_ms": row.until_gone_ms,
    }


def last_change(change: Change | None) -> LastChange | None:
    return None if change is None else LastChange.of(change, at=timestamp(change.at_ms))
