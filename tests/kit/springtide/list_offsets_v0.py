"""ListOffsets v0, in the form of kio's classes, which have what Kafka 4 has and so begin at v1.

It asks for up to so many offsets before a timestamp, and its answer lists them, newest first.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.schema.types import BrokerId, TopicName
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64

_VERSION = i16(0)
_API_KEY = i16(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = _API_KEY
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class _Response:
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = _API_KEY
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class OldListOffsetsPartition(_Request):
    __type__: ClassVar = EntityType.nested
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    timestamp: i64 = field(metadata={"kafka_type": "int64"})
    max_num_offsets: i32 = field(metadata={"kafka_type": "int32"}, default=i32(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class OldListOffsetsTopic(_Request):
    __type__: ClassVar = EntityType.nested
    name: TopicName = field(metadata={"kafka_type": "string"})
    partitions: tuple[OldListOffsetsPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldListOffsetsRequest(_Request):
    __type__: ClassVar = EntityType.request
    replica_id: BrokerId = field(metadata={"kafka_type": "int32"})
    topics: tuple[OldListOffsetsTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldListOffsetsPartitionResponse(_Response):
    __type__: ClassVar = EntityType.nested
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    old_style_offsets: tuple[i64, ...] = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OldListOffsetsTopicResponse(_Response):
    __type__: ClassVar = EntityType.nested
    name: TopicName = field(metadata={"kafka_type": "string"})
    partitions: tuple[OldListOffsetsPartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldListOffsetsResponse(_Response):
    __type__: ClassVar = EntityType.response
    topics: tuple[OldListOffsetsTopicResponse, ...]
