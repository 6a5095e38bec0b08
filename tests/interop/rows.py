"""The rows of the matrix: what a Kafka client can ask of brokers, and the records that it is tried with.

A driver (a small program in the client's own language) gets one JSON object a line on standard input:

    {"call": "produce", "bootstrap": "127.0.0.1:9092,…", "topic": "…", "codec": "gzip", …}

It answers with one line: {"value": …}, {"error": "…"}, or {"absent": "…"} for what its client cannot do,
or {"missing": "…"} for what cannot be tried here.
Drivers only act and tell; the runner compares (checks.py). All write the same records: key `k7`, value
`value 7`. Calls about a group and what they return, where it is not told by their names:

    group_share     two members subscribe to two partitions until each has one, then the second leaves:
                    {"together": [[0], [1]], "alone": [0, 1]}
    group_resume    a member reads `offset` records from the beginning, commits and leaves; another one of
                    the group reads the others and commits: the other's records
    group_static    two members with instance ids share two partitions; one ends and comes back:
                    {"before": [0], "after": [0], "revocations": how often the one that stayed lost some}
    consumer_share, consumer_resume, consumer_static
                    the same with group.protocol=consumer (KIP-848)
    describe_group  {"state": "Stable", "members": how many}
    group_offsets   the offset that the group has committed for partition 0
    count_words     count the words of all records, keep the counts in the log, and come back with them:
                    {"counted": {"most": of the commonest, "words": how many}, "restored": the same}
    copy_lines      copy `line 0`, `line 1`, … through the topic, as many as records; be killed after half of
                    them, and go on: the lines that came out
    reset_group     commit `offset` for partition 0 of a group without members
    transact        write records `lost n` in a transaction and abort it, then the usual ones in another and
                    commit it; the transactional id is the group's in all these rows
    fetch_committed as `fetch`, of a topic that has aborted records too
    copy            copy the usual records from partition 0 to partition 1 in a transaction that commits
                    `count` as the offset of the group
    take_over       write `lost n` in a transaction; a second producer of this transactional id writes the
                    usual records and commits; whether the first one's commit is refused then
    list_transactions
                    the transactional ids of all that there are
    describe_transaction
                    the one that is open: {"state": "Ongoing", "partitions": [0]}
    set_password, describe_user, delete_password
                    of `user`, for SCRAM-SHA-256; described: {"SCRAM-SHA-256": how many iterations}
    set_quota, describe_quotas
                    `quota` of `user`; described: {"consumer_byte_rate": …}
    create_acl, describe_acls, delete_acl
                    `principal` may READ the topic; described, of the topic: [["User:…", "READ"]]

Rows of the secured cluster (security.py) have a `login` in their requests, which is null in the others.
"""

from __future__ import annotations

from dataclasses import dataclass

RECORDS = 100
TIMESTAMP_MS = 1_600_000_000_000
"""Record number n of the topic that clients read is n seconds after this."""
ASKED_OFFSET = 42
COMMITTED_OFFSET = 7
"""What groups have committed for partition 0 before an administrator comes."""
SETTING, SETTING_BEFORE, SETTING_AFTER = "retention.ms", "-1", "7200000"
NEW_PARTITIONS = 2
REPLICATION_FACTOR = 3
QUOTA, RATE = "consumer_byte_rate", 1048576
ITERATIONS = 8192
ACL_PRINCIPAL = "User:carol"
"""In rows that administer ACLs."""
ADMINISTRATOR = "admin"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Row:
    """One capability.

    Attributes:
        name: one word, as `--row` takes it; topics of the row have it in their name.
        call: what the driver is asked for.
        codec: what `produce` compresses with.
        partitions: those of the row's topic.
        login: how the client gets into the secured cluster; "": it asks the plain one.
        is_refused: the client has to be told that it is not authorized, and nothing done.
        beside_classic: a member of the classic protocol, which reads another topic, is in the group.
    """

    name: str
    title: str
    call: str
    codec: str = "none"
    idempotent: bool = False
    partitions: int = 1
    login: str = ""
    is_refused: bool = False
    beside_classic: bool = False

    def request(self, *, bootstrap: str, topic: str, login: dict[str, str] | None) -> dict[str, object]:
        """Return what the driver reads."""
        return {
            "call": self.call,
            "bootstrap": bootstrap,
            "topic": topic,
            "count": RECORDS,
            "codec": self.codec,
            "idempotent": self.idempotent,
            "partitions": NEW_PARTITIONS,
            "replication_factor": REPLICATION_FACTOR,
            "setting": SETTING,
            "value": SETTING_AFTER,
            "timestamp_ms": TIMESTAMP_MS + ASKED_OFFSET * 1000 - 500,
            "offset": ASKED_OFFSET,
            "group": topic,
            "user": topic,
            "password": "correct horse battery staple",
            "iterations": ITERATIONS,
            "quota": QUOTA,
            "rate": RATE,
            "principal": ACL_PRINCIPAL,
            "login": login,
        }


ROWS = (
    Row("connect", "connect, ApiVersions", "connect"),
    Row("list", "list topics", "list_topics"),
    Row("create", "create a topic", "create"),
    Row("describe-configs", "describe configs", "describe_configs"),
    Row("alter-configs", "alter configs", "alter_configs"),
    *(Row(f"produce-{codec}", f"produce acks=all, {codec}", "produce", codec) for codec in CODECS),
    Row("produce-idempotent", "produce, idempotent", "produce", idempotent=True),
    Row("fetch", "fetch, every codec", "fetch"),
    Row("offset-by-time", "offset by time", "offset_by_time"),
    Row("delete-records", "delete records", "delete_records"),
    Row("delete", "delete a topic", "delete"),
    Row("group-share", "group: two members share", "group_share", partitions=NEW_PARTITIONS),
    Row("group-resume", "group: commit and go on", "group_resume"),
    Row("group-static", "group: static member returns", "group_static", partitions=NEW_PARTITIONS),
    Row("consumer-share", "KIP-848: two members share", "consumer_share", partitions=NEW_PARTITIONS),
    Row(
        "consumer-mixed",
        "KIP-848: beside a classic member",
        "consumer_share",
        partitions=NEW_PARTITIONS,
        beside_classic=True,
    ),
    Row("consumer-resume", "KIP-848: commit and go on", "consumer_resume"),
    Row("consumer-static", "KIP-848: static member returns", "consumer_static", partitions=NEW_PARTITIONS),
    Row("group-list", "list groups", "list_groups"),
    Row("group-describe", "describe a group", "describe_group"),
    Row("group-offsets", "a group's offsets", "group_offsets"),
    Row("group-reset", "reset a group's offsets", "reset_group"),
    Row("group-delete-offsets", "delete a group's offsets", "delete_group_offsets"),
    Row("group-delete", "delete a group", "delete_group"),
    Row("user-set", "set a user's password", "set_password"),
    Row("user-describe", "describe a user", "describe_user"),
    Row("user-delete", "delete a user's password", "delete_password"),
    Row("quota-set", "set a user's quota", "set_quota"),
    Row("quota-describe", "describe a user's quotas", "describe_quotas"),
    Row("txn-produce", "transactions: abort, commit", "transact"),
    Row("txn-fetch", "transactions: read committed", "fetch_committed"),
    Row("txn-copy", "transactions: read, write, commit", "copy", partitions=NEW_PARTITIONS),
    Row("txn-fence", "transactions: takeover fences", "take_over"),
    Row("txn-list", "list transactions", "list_transactions"),
    Row("txn-describe", "describe a transaction", "describe_transaction"),
    Row("streams", "Kafka Streams, word count", "count_words"),
    Row("kafka-connect", "Kafka Connect, distributed", "copy_lines"),
    Row("tls", "TLS", "produce", login="tls"),
    Row("mtls", "TLS, client's certificate", "produce", login="mtls"),
    Row("sasl-plain", "SASL PLAIN", "produce", login="plain"),
    Row("scram-sha-256", "SASL SCRAM-SHA-256", "produce", login="scram-sha-256"),
    Row("scram-sha-512", "SASL SCRAM-SHA-512", "produce", login="scram-sha-512"),
    Row("oauthbearer", "SASL OAUTHBEARER", "produce", login="oauthbearer"),
    Row("acl-allowed", "ACLs: a group reads that may", "group_resume", login="scram-sha-512"),
    Row("acl-refused", "ACLs: others are refused", "produce", login="stranger", is_refused=True),
    Row("acl-create", "create an ACL", "create_acl", login=ADMINISTRATOR),
    Row("acl-describe", "describe ACLs", "describe_acls", login=ADMINISTRATOR),
    Row("acl-delete", "delete an ACL", "delete_acl", login=ADMINISTRATOR),
)

WAITING = {
    "share groups, KIP-932": "Springtide's coordinators have none",
}
"""Rows that nothing is run for, with what they wait for."""


def lost_records() -> list[list[str]]:
    """Return those of transactions that are aborted."""
    return [[f"k{number}", f"lost {number}"] for number in range(RECORDS)]


def expected_records() -> list[list[str]]:
    """Return key and value of every record, in order."""
    return [[f"k{number}", f"value {number}"] for number in range(RECORDS)]
