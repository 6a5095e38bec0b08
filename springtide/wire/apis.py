"""Which APIs and versions every node, broker or coordinator, speaks: one set, that of Apache Kafka 4.3.

Clients infer a release from single maxima (kafka-python reads "4.3" from DescribeLogDirs 5) and switch
features on one API at a time. So the upper bounds are those of one release, and an API is listed only if it
is implemented, but for one that is refused.
The lower bounds are where record batches of format 2 begin, because older formats are neither stored nor
converted; they equal the bounds of Kafka 4 (KIP-896), which every client of the last seven years has met:

- Produce: 0-13 is advertised, 3-13 is served. Format 2 begins at v3, but librdkafka falls back to sending
  uncompressed unless v0-2 are listed (KAFKA-18659, librdkafka 4956), so Kafka 4 lists them too. A request
  of v0-2 gets UNSUPPORTED_VERSION for each partition; no client sends one, since it takes the highest it
  knows.
- Fetch: v4 is the first that returns format 2.
- ListOffsets: v0 is served for the two ends of a log, although Kafka 4 dropped it: it costs two small
  messages, and lag monitors ask nothing else in it (Burrow's sarama builds the request without a version).
- OffsetForLeaderEpoch: v0 and v1 do not state the asker's leader epoch (KIP-320); only brokers sent them.
- CreateTopics, DeleteTopics, DescribeConfigs, DescribeLogDirs, OffsetCommit, OffsetFetch, the APIs of ACLs:
  earlier versions were dropped by KIP-896.
- SaslHandshake: v0, after which tokens come without frames, is listed and refused with UNSUPPORTED_VERSION.
- InitProducerId: v6 is not stable in Kafka 4.3, whose brokers do not list it either.
- WriteTxnMarkers: v0 was dropped by KIP-896.
- Metadata, FindCoordinator, ApiVersions, InitProducerId, the other APIs of groups, of transactions and of
  administrators: all versions.

Brokers hold no groups and coordinators no records, but clients take the versions of one node for those of
all: so each lists the same, and refuses what is the other's. ConsumerGroupHeartbeat and ConsumerGroupDescribe
(KIP-848) are listed where the cluster's level has CONSUMER_GROUPS (handlers/api_versions.py). Below it they
are refused with UNSUPPORTED_VERSION, as by a Kafka whose operator has switched that protocol off.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from .errors import ErrorCode

NEXT_RELEASE = "0.3.0"
TOO_OLD_ERROR = ErrorCode.UNSUPPORTED_VERSION
"""A partition's error in the answer to a Produce request of a version that is advertised but not served."""


class ApiKey(IntEnum):
    """The APIs by their number on the wire."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    DESCRIBE_TOPIC_PARTITIONS = 75

    @property
    def kafka_name(self) -> str:
        """Return the name as Kafka spells it: `DescribeLogDirs`."""
        return self.name.replace("_", " ").title().replace(" ", "")


class ApiSpec(NamedTuple):
    """One API: the versions told to clients, the first one served, the first with compact types and tags, and
    the release of Springtide that first had the newest of them."""

    api_key: ApiKey
    version_min: int
    version_max: int
    flexible_since: int
    served_since: int
    release: str = "0.1.0"

    def is_flexible(self, api_version: int) -> bool:
        return api_version >= self.flexible_since


APIS: dict[int, ApiSpec] = {
    spec.api_key: spec
    for spec in (
        ApiSpec(ApiKey.PRODUCE, 0, 13, flexible_since=9, served_since=3, release="0.2.0"),
        ApiSpec(ApiKey.FETCH, 4, 18, flexible_since=12, served_since=4, release="0.2.0"),
        ApiSpec(ApiKey.LIST_OFFSETS, 0, 11, flexible_since=6, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.METADATA, 0, 13, flexible_since=9, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.OFFSET_COMMIT, 2, 10, flexible_since=8, served_since=2, release="0.2.0"),
        ApiSpec(ApiKey.OFFSET_FETCH, 1, 10, flexible_since=6, served_since=1, release="0.2.0"),
        ApiSpec(ApiKey.FIND_COORDINATOR, 0, 6, flexible_since=3, served_since=0),
        ApiSpec(ApiKey.JOIN_GROUP, 0, 9, flexible_since=6, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.HEARTBEAT, 0, 4, flexible_since=4, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.LEAVE_GROUP, 0, 5, flexible_since=4, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.SYNC_GROUP, 0, 5, flexible_since=4, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.DESCRIBE_GROUPS, 0, 6, flexible_since=5, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.LIST_GROUPS, 0, 5, flexible_since=3, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.SASL_HANDSHAKE, 0, 1, flexible_since=2, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.API_VERSIONS, 0, 4, flexible_since=3, served_since=0),
        ApiSpec(ApiKey.CREATE_TOPICS, 2, 7, flexible_since=5, served_since=2),
        ApiSpec(ApiKey.DELETE_TOPICS, 1, 6, flexible_since=4, served_since=1),
        ApiSpec(ApiKey.DELETE_RECORDS, 0, 2, flexible_since=2, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.INIT_PRODUCER_ID, 0, 5, flexible_since=2, served_since=0),
        ApiSpec(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, flexible_since=4, served_since=2),
        ApiSpec(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, flexible_since=3, served_since=0, release=NEXT_RELEASE),
        ApiSpec(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, flexible_since=3, served_since=0, release=NEXT_RELEASE),
        ApiSpec(ApiKey.END_TXN, 0, 5, flexible_since=3, served_since=0, release=NEXT_RELEASE),
        ApiSpec(ApiKey.WRITE_TXN_MARKERS, 1, 2, flexible_since=1, served_since=1, release=NEXT_RELEASE),
        ApiSpec(ApiKey.TXN_OFFSET_COMMIT, 0, 5, flexible_since=3, served_since=0, release=NEXT_RELEASE),
        ApiSpec(ApiKey.DESCRIBE_ACLS, 1, 3, flexible_since=2, served_since=1, release="0.2.0"),
        ApiSpec(ApiKey.CREATE_ACLS, 1, 3, flexible_since=2, served_since=1, release="0.2.0"),
        ApiSpec(ApiKey.DELETE_ACLS, 1, 3, flexible_since=2, served_since=1, release="0.2.0"),
        ApiSpec(ApiKey.DESCRIBE_CONFIGS, 1, 4, flexible_since=4, served_since=1),
        ApiSpec(ApiKey.ALTER_CONFIGS, 0, 2, flexible_since=2, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, flexible_since=2, served_since=1, release="0.2.0"),
        ApiSpec(ApiKey.SASL_AUTHENTICATE, 0, 2, flexible_since=2, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.CREATE_PARTITIONS, 0, 3, flexible_since=2, served_since=0),
        ApiSpec(ApiKey.DELETE_GROUPS, 0, 2, flexible_since=2, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.ELECT_LEADERS, 0, 2, flexible_since=2, served_since=0),
        ApiSpec(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, flexible_since=1, served_since=0),
        ApiSpec(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, flexible_since=0, served_since=0, release="0.2.0"
        ),
        ApiSpec(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, flexible_since=0, served_since=0),
        ApiSpec(ApiKey.OFFSET_DELETE, 0, 0, flexible_since=1, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, flexible_since=1, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, flexible_since=1, served_since=0, release="0.2.0"),
        ApiSpec(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            0,
            0,
            flexible_since=0,
            served_since=0,
            release="0.2.0",
        ),
        ApiSpec(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, flexible_since=0, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.UPDATE_FEATURES, 0, 2, flexible_since=0, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.DESCRIBE_CLUSTER, 0, 2, flexible_since=0, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.DESCRIBE_PRODUCERS, 0, 0, flexible_since=0, served_since=0),
        ApiSpec(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, flexible_since=0, served_since=0, release=NEXT_RELEASE),
        ApiSpec(ApiKey.LIST_TRANSACTIONS, 0, 2, flexible_since=0, served_since=0, release=NEXT_RELEASE),
        ApiSpec(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, flexible_since=0, served_since=0, release="0.2.0"),
        ApiSpec(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, flexible_since=0, served_since=0, release=NEXT_RELEASE),
        ApiSpec(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, flexible_since=0, served_since=0, release="0.2.0"),
    )
}
"""In the order in which clients are told them."""

UNSTABLE_VERSIONS: dict[int, set[int]] = {ApiKey.INIT_PRODUCER_ID: {6}}
"""Versions that Kafka 4.3 defines and does not list."""

REPLICA_FETCH_VERSIONS = range(15, 18)
"""The versions of our followers: they have topic ids and the replica's broker epoch. A follower takes the
highest that its leader speaks, too, for brokers of one release and the next follow each other while a cluster
is upgraded."""
REPLICA_FETCH_VERSION = REPLICA_FETCH_VERSIONS[-1]
"""The highest of them, which other readers in the cluster use unasked: it is never above what the release
before serves."""


class UnsupportedApi(Exception):
    """A request for an API or version that is not advertised: close, unless `is_api_versions`.

    A client that asks ApiVersions in a version we lack can't know ours yet. It gets a v0 body with
    UNSUPPORTED_VERSION and the list (KIP-511; handlers build it with version 0).
    """

    def __init__(self, *, api_key: int, api_version: int, correlation_id: int) -> None:
        super().__init__(f"API {api_key} version {api_version} is not advertised")
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id

    @property
    def is_api_versions(self) -> bool:
        return self.api_key == ApiKey.API_VERSIONS


def response_header_version(api_key: int, api_version: int) -> int:
    """Return 1 where the API's version is flexible, else 0. ApiVersions stays 0: its reader knows no version
    yet."""
    return 1 if api_key != ApiKey.API_VERSIONS and APIS[api_key].is_flexible(api_version) else 0
