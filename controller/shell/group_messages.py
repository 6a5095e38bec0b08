"""The questions about client groups, transactions and logs in Kafka's protocol, and what the answers say.

Nodes of this and of earlier releases serve the versions that are asked in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from controller.shell.client_groups import (
    CommittedPlace,
    DeletionNotStored,
    DeletionRefused,
    GroupAbsent,
    GroupBusy,
    GroupDetail,
    GroupListing,
    GroupsUnavailable,
    LogPosition,
    MemberDetail,
    Place,
)
from controller.shell.kafka_connection import KafkaConnection, KafkaPeer, NodeLost
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode, error_code
from springtide.wire.fetch_request import FetchPartition, FetchRequest, encode_fetch_request
from springtide.wire.fetch_response import FetchedPartition, decode_fetch_response
from springtide.wire.primitives import MALFORMED_CAUSES, MalformedRequest, Reader
from springtide.wire.questions import by_topic, listed_offsets
from springtide.wire.record_batch import CorruptBatch, iter_headers
from springtide.wire.records import iter_records

T = TypeVar("T")

RECORD_WAIT_MS: Final = 500
RECORD_BYTES: Final = 16_384
RECORDS_BYTES_MAX: Final = 2 * 1024 * 1024
DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024

#: How long a leader waits until other replicas have stored a deletion: less than a question may take.
DELETION_MS_MAX: Final = 3_000

VERSIONS: Final[Mapping[ApiKey, int]] = {
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 7,  # the first that knows MAX_TIMESTAMP (KIP-734)
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1,
    ApiKey.LIST_GROUPS: 4,  # the first that tells states (KIP-518)
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.LIST_TRANSACTIONS: 1,
}
_GROUP_TYPES: Final = ("", "consumer")
_STATES: Final = frozenset(
    {"stable", "empty", "dead", "preparing_rebalance", "completing_rebalance", "assigning", "reconciling"}
)
_ABSENT: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID})
_BUSY: Final = frozenset(
    {
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
#: A group is on its way to another coordinator: it is looked for again.
PASSING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
#: Where Kafka's name of a code does not read as a sentence.
_WORDS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.ILLEGAL_GENERATION: "Specified group generation id is not valid",
    ErrorCode.INVALID_GROUP_ID: "Invalid group.id",
    ErrorCode.UNKNOWN_MEMBER_ID: "Unknown member",
    ErrorCode.REBALANCE_IN_PROGRESS: "Group rebalance in progress",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist",
}


class KafkaRefusal(Exception):
    """A node answered with an error."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(in_words(code))
        self.code = code

    def failure(self) -> Exception:
        if self.code in _ABSENT:
            return GroupAbsent(str(self))
        if self.code in _BUSY:
            return GroupBusy(str(self))
        return GroupsUnavailable(f"the cluster answered: {self}")


def in_words(code: ErrorCode) -> str:
    return f"Broker: {_WORDS.get(code) or code.name.replace('_', ' ').capitalize()}"


def check(code: int) -> None:
    """Raise KafkaRefusal unless the code is NONE."""
    if code:
        raise KafkaRefusal(error_code(int(code)))


def only(node: KafkaPeer, items: Sequence[T]) -> T:
    """Return the one item of an answer. Raise NodeLost."""
    if len(items) != 1:
        raise NodeLost(node, f"its answer is about {len(items)} things, not one")
    return items[0]


def state_word(told: str, states: Collection[str] = _STATES) -> str:
    """Return Kafka's name of a state in small letters; `unknown` if it is none of them."""
    state = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", told).lower()
    return state if state in states else "unknown"


def listings(_: KafkaPeer, answer: Any) -> dict[str, GroupListing]:
    """Return the groups of consumers by their ids."""
    return {one.group_id: _listing(one) for one in answer.groups if one.protocol_type in _GROUP_TYPES}


def _listing(group: Any) -> GroupListing:
    return GroupListing(
        group_id=group.group_id, state=state_word(group.group_state), protocol_type=group.protocol_type
    )


def described(node: KafkaPeer, answer: Any) -> GroupDetail:
    group = only(node, answer.groups)
    check(group.error_code)
    if group.protocol_type not in _GROUP_TYPES:
        raise GroupAbsent(f"a group of the protocol {group.protocol_type!r} is none of consumers")
    told = _listing(group)
    if told.state == "dead":
        raise GroupAbsent("its coordinator does not know it")
    return GroupDetail(
        group_id=told.group_id,
        state=told.state,
        protocol_type=told.protocol_type,
        assignor=group.protocol_data,
        coordinator_id=node.node_id,
        endpoint=node.endpoint,
        members=tuple(
            MemberDetail(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                host=member.client_host,
                assigned=_assigned(member.member_assignment),
            )
            for member in group.members
        ),
    )


def described_consumers(node: KafkaPeer, answer: Any) -> GroupDetail:
    """Return a group of the `consumer` protocol (KIP-848)."""
    group = only(node, answer.groups)
    check(group.error_code)
    return GroupDetail(
        group_id=group.group_id,
        state=state_word(group.group_state),
        protocol_type="consumer",
        assignor=group.assignor_name,
        coordinator_id=node.node_id,
        endpoint=node.endpoint,
        members=tuple(
            MemberDetail(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.client_host,
                assigned=tuple(
                    (topic.topic_name, partition)
                    for topic in member.assignment.topic_partitions
                    for partition in topic.partitions
                ),
            )
            for member in group.members
        ),
    )


def _assigned(assignment: bytes) -> tuple[Place, ...]:
    """Return the partitions of a ConsumerProtocolAssignment, of any version. A client made the bytes: what is
    no assignment assigns nothing."""
    reader = Reader(assignment)
    found: list[Place] = []
    try:
        reader.int16()  # the version
        for _ in range(reader.array_count(is_flexible=False, element_bytes_min=6)):
            topic = reader.string(is_flexible=False)
            count = reader.array_count(is_flexible=False, element_bytes_min=4)
            found += [(topic, reader.int32()) for _ in range(count)]
    except (MalformedRequest, *MALFORMED_CAUSES):
        return ()
    return tuple(found)


def committed(_: KafkaPeer, answer: Any) -> dict[Place, CommittedPlace]:
    check(answer.error_code)
    return {
        (topic.name, one.partition_index): CommittedPlace(
            offset=one.committed_offset,
            leader_epoch=one.committed_leader_epoch if one.committed_leader_epoch >= 0 else None,
        )
        for topic in answer.topics
        for one in topic.partitions
        if not one.error_code and one.committed_offset >= 0
    }


def positions(answer: Any) -> dict[Place, LogPosition]:
    return {
        place: LogPosition(offset=one.offset, timestamp_ms=one.timestamp if one.timestamp >= 0 else None)
        for place, one in listed_offsets(answer).items()
        if one.error is ErrorCode.NONE
    }


def offset_commit(group_id: str, offsets: Mapping[Place, int]) -> dict[str, object]:
    rows = {
        place: {"committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
        for place, offset in offsets.items()
    }
    return {
        "group_id": group_id,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": by_topic(rows),
    }


def unset(_: KafkaPeer, answer: Any) -> dict[Place, str]:
    failed = {
        (topic.name, one.partition_index): error_code(int(one.error_code))
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code
    }
    for code in failed.values():
        if code in _BUSY | PASSING:  # nothing was set
            raise KafkaRefusal(code)
    return {place: in_words(code) for place, code in failed.items()}


def check_deleted(node: KafkaPeer, answer: Any) -> None:
    check(only(node, answer.results).error_code)


def deletion(place: Place, before_offset: int) -> dict[str, object]:
    return {"topics": by_topic({place: {"offset": before_offset}}), "timeout_ms": DELETION_MS_MAX}


def check_records_deleted(node: KafkaPeer, answer: Any) -> None:
    """Raise DeletionRefused, DeletionNotStored; raise GroupsUnavailable where another try may succeed."""
    topic = only(node, answer.topics)
    code = error_code(int(only(node, topic.partitions).error_code))
    match code:
        case ErrorCode.NONE:
            return
        case ErrorCode.REQUEST_TIMED_OUT:
            raise DeletionNotStored(in_words(code))
        case ErrorCode.POLICY_VIOLATION | ErrorCode.OFFSET_OUT_OF_RANGE:
            raise DeletionRefused(in_words(code))
    raise GroupsUnavailable(in_words(code))


async def fetch(
    node: KafkaPeer, connection: KafkaConnection, left: Mapping[Place, int]
) -> Sequence[FetchedPartition]:
    """Ask for records from these offsets on. Raise NodeLost."""
    version = VERSIONS[ApiKey.FETCH]
    request = FetchRequest(
        max_wait_ms=RECORD_WAIT_MS,
        min_bytes=1,
        max_bytes=RECORDS_BYTES_MAX,
        partitions=[
            FetchPartition(topic, number, fetch_offset=offset, max_bytes=RECORD_BYTES)
            for (topic, number), offset in left.items()
        ],
    )
    answer = await connection.ask_raw(ApiKey.FETCH, version, encode_fetch_request(version, request))
    try:
        response = decode_fetch_response(version, answer.frame, answer.position)
    except MalformedRequest as error:
        raise NodeLost(node, str(error)) from error
    if response.error_code:
        raise NodeLost(node, in_words(response.error))
    return response.partitions


def first_times(
    fetched: Sequence[FetchedPartition], left: Mapping[Place, int]
) -> tuple[dict[Place, int], dict[Place, int]]:
    """Return the timestamps of the first records, and from where on the other partitions are to be read."""
    times: dict[Place, int] = {}
    following = dict(left)
    for one in fetched:
        place = (str(one.topic), one.partition)
        if place not in following:
            continue
        if one.error is ErrorCode.OFFSET_OUT_OF_RANGE and one.log_start_offset > following[place]:
            following[place] = (
                one.log_start_offset
            )  # what was committed is deleted: as consumers do by default
        elif one.error is not ErrorCode.NONE:
            del following[place]
        else:
            try:
                time_ms, following[place] = _first_time(one.view, following[place])
            except CorruptBatch:
                time_ms = -1
            if time_ms is not None:
                del following[place]
                if time_ms >= 0:
                    times[place] = time_ms
    return times, following


def _first_time(view: memoryview, offset: int) -> tuple[int | None, int]:
    """Return the timestamp of the first record at or after an offset, None if there is none, and the offset
    after what was looked at. Raise CorruptBatch."""
    for position, header in iter_headers(view):
        if not header.is_control and header.last_offset >= offset:
            batch = view[position : position + header.size_bytes]
            for record in iter_records(batch, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX):
                if record.offset >= offset:
                    return record.timestamp, offset
        offset = max(offset, header.next_offset)
    return None, offset
