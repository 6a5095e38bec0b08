"""The catalogue of problems: every error code of the REST interface, its meaning and the remedy.

A code never changes its meaning, because scripts match on it. The catalogue is also served under
`/problems`, so that the `type` of a problem is a working address even on a closed network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class KafkaError(NamedTuple):
    """The code that Kafka's own tools show for the same refusal."""

    code: int
    name: str


class Kind(NamedTuple):
    """One entry of the catalogue. hint: what to do; the code that raises the problem may give a better
    one."""

    status: int
    title: str
    hint: str
    retryable: bool = False
    kafka_error: KafkaError | None = None


CATALOGUE: Mapping[str, Kind] = {
    "unreadable_body": Kind(400, "The body is not readable JSON", "the detail says where the reader stopped"),
    "bad_request": Kind(
        400,
        "The request can't be understood",
        "the request is no HTTP/1.1, or nothing that this address can take; see /docs",
    ),
    "unauthenticated": Kind(
        401,
        "This takes a token",
        "send the header 'Authorization: Bearer TOKEN'; the controller's operator hands them out",
    ),
    "forbidden": Kind(
        403,
        "The token's role does not allow this",
        "use a token whose role is the one in facts.needed, or ask for one",
    ),
    "other_origin": Kind(
        403,
        "A page of another site may not change anything here",
        "send a token, or use the controller's own page under the host and port that its address has",
    ),
    "read_only": Kind(
        403,
        "This controller is read-only",
        "start it without --read-only to change something; dry runs are possible",
    ),
    "not_found": Kind(404, "There is nothing at this address", "see /docs for what there is"),
    "cluster_not_found": Kind(404, "No such cluster", "GET /clusters lists those that exist"),
    "broker_not_found": Kind(404, "No such broker", "GET /clusters/{cluster}/brokers lists those registered"),
    "coordinator_not_found": Kind(
        404, "No such coordinator", "GET /clusters/{cluster}/coordinators lists those registered"
    ),
    "group_not_found": Kind(
        404,
        "No such consumer group",
        "GET /clusters/{cluster}/groups lists those that coordinators know",
        kafka_error=KafkaError(69, "GROUP_ID_NOT_FOUND"),
    ),
    "transaction_not_found": Kind(
        404,
        "No such transactional id",
        "GET /clusters/{cluster}/transactions lists those that coordinators know",
        kafka_error=KafkaError(105, "TRANSACTIONAL_ID_NOT_FOUND"),
    ),
    "plan_not_found": Kind(
        404, "No such plan", "GET /clusters/{cluster}/plans lists those kept; they go some days after expiry"
    ),
    "topic_not_found": Kind(
        404,
        "No such topic",
        "GET /clusters/{cluster}/topics lists those that exist",
        kafka_error=KafkaError(3, "UNKNOWN_TOPIC_OR_PARTITION"),
    ),
    "partition_not_found": Kind(
        404,
        "No such partition",
        "GET /clusters/{cluster}/topics/{topic}/partitions lists those that exist",
        kafka_error=KafkaError(3, "UNKNOWN_TOPIC_OR_PARTITION"),
    ),
    "operation_not_found": Kind(404, "No such operation", "GET /operations lists them, newest first"),
    "config_not_found": Kind(
        404,
        "No such configuration",
        "GET /clusters/{cluster}/topics/{topic}/configs lists those that exist",
        kafka_error=KafkaError(40, "INVALID_CONFIG"),
    ),
    "audit_row_not_found": Kind(404, "No such audit row", "GET /audit lists rows, newest first"),
    "before_the_audit": Kind(404, "The time lies before the audit begins", "ask for a later time"),
    "problem_not_found": Kind(404, "No such problem code", "GET /problems lists the codes"),
    "method_not_allowed": Kind(405, "This address has no such method", "the Allow header lists the methods"),
    "not_acceptable": Kind(
        406,
        "None of the accepted media types can be produced",
        "leave the header Accept out, or accept application/json",
    ),
    "request_timeout": Kind(
        408,
        "The request did not arrive in time",
        "send the whole request at once; retry if the network was slow",
        retryable=True,
    ),
    "cluster_already_exists": Kind(
        409, "The cluster exists", "GET /clusters/{cluster} shows it; choose another name for another cluster"
    ),
    "topic_already_exists": Kind(
        409,
        "The topic exists",
        "send if_not_exists to accept the one that exists",
        kafka_error=KafkaError(36, "TOPIC_ALREADY_EXISTS"),
    ),
    "topic_name_collision": Kind(
        409,
        "The topic's name differs from another's only by '.' and '_'",
        "metrics could not distinguish the two; choose another name",
        kafka_error=KafkaError(17, "INVALID_TOPIC_EXCEPTION"),
    ),
    "broker_id_in_use": Kind(
        409,
        "The broker id is held by another endpoint",
        "give the new broker an id of its own, or name the endpoint that has this one",
    ),
    "broker_operation_running": Kind(
        409,
        "Another operation is adding, replacing or draining this broker",
        "wait for the operation in operation_id, or look at what it waits for",
    ),
    "broker_in_use": Kind(409, "The broker is in use", "move its replicas away and stop it first"),
    "partition_changed": Kind(
        409, "The partition has changed since it was read", "read it again", retryable=True
    ),
    "recovery_not_needed": Kind(
        409, "The cluster's metadata needs no recovery", "GET /clusters/{cluster}/alarms says what is wrong"
    ),
    "recovery_incomplete": Kind(
        409,
        "A broker has not reported what it holds",
        "start it, or name it in gone_brokers if it will never come back",
        retryable=True,
    ),
    "upgrade_blocked": Kind(
        409,
        "The upgrade can't be finalized yet",
        "start each process that the detail names with the new release, or remove it",
        retryable=True,
    ),
    "election_not_needed": Kind(
        409,
        "No election is needed",
        "the partition has the leader that the election would choose",
        kafka_error=KafkaError(84, "ELECTION_NOT_NEEDED"),
    ),
    "election_not_possible": Kind(
        409,
        "The election is not possible now",
        "the partition's `why` says which replicas could lead, and what they wait for",
    ),
    "loss_too_large": Kind(
        409,
        "The election would lose more records than was accepted",
        "GET .../loss-preview shows which replica loses least; or accept more in lost_records_max",
    ),
    "loss_unknown": Kind(
        409,
        "How much the election would lose is not known yet",
        "live replicas report the ends of their logs within a second; try again",
        retryable=True,
    ),
    "replica_quarantined": Kind(
        409,
        "A replica keeps records that the leader may lack",
        "the detail says who holds what, and which broker to stop so that it can lead",
    ),
    "no_reassignment_in_progress": Kind(
        409,
        "No reassignment of this partition is in progress",
        "the partition's adding_replicas and removing_replicas show what is in progress",
        kafka_error=KafkaError(85, "NO_REASSIGNMENT_IN_PROGRESS"),
    ),
    "reassignment_not_safe": Kind(
        409,
        "The change would leave too few replicas in sync, or none that may lead",
        "the partition's isr and min_insync_replicas show what has to stay; try when more are in sync",
        retryable=True,
    ),
    "plan_stale": Kind(
        409,
        "Partitions have changed since the plan was made",
        "`drifted` re_plan makes new moves for just these; skip leaves them out; or make another plan",
    ),
    "plan_expired": Kind(409, "The plan has expired", "make another: POST /clusters/{cluster}/plans"),
    "plan_executed": Kind(
        409,
        "The plan is running or has finished",
        "GET /clusters/{cluster}/plans/{plan_id} names by what",
    ),
    "plan_not_executable": Kind(
        409, "The plan holds nothing that could be carried out", "its rejections and skipped say why"
    ),
    "plan_tampered_with": Kind(
        409, "The stored plan is not the one that was made", "its rows were changed in SQL: make another"
    ),
    "operation_running": Kind(
        409, "The operation has not ended yet", "cancel it, or wait for its end", retryable=True
    ),
    "undo_conflicts": Kind(
        409,
        "Partitions are not as the operation left them",
        "`errors` name them; `skip_conflicts` leaves them out",
    ),
    "operation_finished": Kind(
        409,
        "The operation has ended",
        "GET /operations/{operation_id} says how; it can't be cancelled any more",
    ),
    "operation_not_pausable": Kind(
        409,
        "The operation can't be paused or resumed in its state",
        "only one that carries out a plan can, until it is being cancelled",
    ),
    "operation_not_cancellable": Kind(
        409,
        "Operations of this kind can't be cancelled",
        "a demoted broker is taken back with :return; a reassignment can be cancelled",
    ),
    "stored_by_later_release": Kind(
        409,
        "A later release has stored this, and this one can't read it",
        "ask a controller of that release; it is left as it is meanwhile",
    ),
    "operation_moves_nothing": Kind(
        409,
        "The operation moves no data",
        "only a reassignment has a rate; GET /operations?kind=reassignment",
    ),
    "idempotency_key_in_progress": Kind(
        409,
        "The first request with this Idempotency-Key is still running",
        "wait a moment and send it again",
        retryable=True,
    ),
    "precondition_failed": Kind(412, "The resource has changed since its ETag was read", "read it again"),
    "body_too_large": Kind(
        413, "The body is too large", "split what is asked for; facts.body_bytes_max is the bound"
    ),
    "target_too_long": Kind(414, "The path and query are too long", "ask with fewer or shorter parameters"),
    "unsupported_media_type": Kind(
        415, "The body's media type is not JSON", "add the header 'Content-Type: application/json'"
    ),
    "invalid_request": Kind(
        422,
        "The request is well-formed and can't be carried out",
        "errors says which part is wrong, and which bound it broke",
    ),
    "policy_violated": Kind(
        409,
        "A policy of the cluster forbids it",
        "make another plan; GET /clusters/{cluster}/policies shows what must hold",
    ),
    "approval_required": Kind(
        409,
        "On a protected cluster only approved plans move replicas",
        "make a plan (POST /clusters/{cluster}/plans), have it approved, and execute it",
    ),
    "plan_approved": Kind(409, "The plan has been approved", "execute it, or follow its operation"),
    "too_many_policies": Kind(409, "The cluster has as many policies as it may", "put two into one"),
    "verification_not_found": Kind(
        404,
        "No such verification",
        "GET /clusters/{cluster}/verifications lists those kept; the oldest go when new ones come",
    ),
    "user_not_found": Kind(404, "No such user", "GET /clusters/{cluster}/users lists those that exist"),
    "policy_not_found": Kind(404, "No such policy", "GET /clusters/{cluster}/policies lists them"),
    "webhook_not_found": Kind(404, "No such webhook", "GET /clusters/{cluster}/webhooks lists them"),
    "too_many_webhooks": Kind(409, "The cluster has as many webhooks as it may", "delete one first"),
    "silence_not_found": Kind(
        404, "No such silence", "GET /clusters/{cluster}/silences lists those that have not ended"
    ),
    "too_many_silences": Kind(
        409, "The cluster has as many silences as it may", "end some, or silence a code"
    ),
    "same_person": Kind(
        403, "It takes a second person", "ask another person, with a token of their own, to approve it"
    ),
    "not_read_only": Kind(
        422, "A policy may only read", "write one SELECT over the tables that the field `sql` describes"
    ),
    "invalid_policy": Kind(422, "The SQL is no policy", "errors says where; SQLite's dialect is spoken"),
    "reason_required": Kind(
        422, "Changes of this cluster need a reason", "say why, in `reason`: the audit keeps it"
    ),
    "cluster_required": Kind(
        422, "There are several clusters, and none is named", "add 'cluster' to the body"
    ),
    "idempotency_key_reused": Kind(
        422, "The Idempotency-Key was used for another request", "use a new key for a new request"
    ),
    "invalid_topic_name": Kind(
        422,
        "The topic's name is not allowed",
        "use up to 249 letters, digits, '.', '_' and '-'",
        kafka_error=KafkaError(17, "INVALID_TOPIC_EXCEPTION"),
    ),
    "invalid_partitions": Kind(
        422,
        "The number of partitions is not allowed",
        "errors says which bound was broken",
        kafka_error=KafkaError(37, "INVALID_PARTITIONS"),
    ),
    "invalid_replication_factor": Kind(
        422,
        "The replication factor is not allowed",
        "errors says which bound was broken",
        kafka_error=KafkaError(38, "INVALID_REPLICATION_FACTOR"),
    ),
    "replication_factor_too_large": Kind(
        422,
        "The replication factor exceeds the eligible brokers",
        "add a broker, bring a fenced one back, or lower the factor",
        kafka_error=KafkaError(38, "INVALID_REPLICATION_FACTOR"),
    ),
    "invalid_replica_assignment": Kind(
        422,
        "The replica assignment is not allowed",
        "give each partition distinct brokers, as many as every other has",
        kafka_error=KafkaError(39, "INVALID_REPLICA_ASSIGNMENT"),
    ),
    "no_live_replica": Kind(
        422,
        "A partition would have no live replica",
        "bring one of its brokers back, or place it on brokers that are active",
        kafka_error=KafkaError(39, "INVALID_REPLICA_ASSIGNMENT"),
    ),
    "unknown_config": Kind(
        422,
        "No such configuration",
        "errors names it; the names are Kafka's, such as min.insync.replicas",
        kafka_error=KafkaError(40, "INVALID_CONFIG"),
    ),
    "invalid_config": Kind(
        422,
        "The configuration is not allowed",
        "errors names it and says what it may be",
        kafka_error=KafkaError(40, "INVALID_CONFIG"),
    ),
    "offset_out_of_range": Kind(
        422,
        "The partition has no such offset",
        "facts has the range that it has; records below it were deleted",
        kafka_error=KafkaError(1, "OFFSET_OUT_OF_RANGE"),
    ),
    "unknown_topic": Kind(
        422,
        "The request names a topic that does not exist",
        "GET /clusters/{cluster}/topics lists those that exist",
        kafka_error=KafkaError(3, "UNKNOWN_TOPIC_OR_PARTITION"),
    ),
    "invalid_acl": Kind(
        422,
        "The ACL is not allowed",
        "errors says which part can match no request",
        kafka_error=KafkaError(42, "INVALID_REQUEST"),
    ),
    "too_many_acls": Kind(
        422,
        "There is no room for more ACLs",
        "errors says which bound was reached; prefixes and User:* stand for many",
        kafka_error=KafkaError(44, "POLICY_VIOLATION"),
    ),
    "invalid_user": Kind(
        422,
        "The user's name is not allowed",
        "use 1 to 255 characters that can be printed",
        kafka_error=KafkaError(93, "UNACCEPTABLE_CREDENTIAL"),
    ),
    "invalid_credential": Kind(
        422,
        "The password's derivation is not allowed",
        "use SCRAM-SHA-256 or SCRAM-SHA-512 with 4096 to 16384 iterations",
        kafka_error=KafkaError(93, "UNACCEPTABLE_CREDENTIAL"),
    ),
    "unknown_credential": Kind(
        422,
        "The user has no password for this mechanism",
        "the user's mechanisms are those that it has a password for",
        kafka_error=KafkaError(91, "RESOURCE_NOT_FOUND"),
    ),
    "named_twice": Kind(
        422,
        "The request names one thing twice",
        "name each user, mechanism and entity once",
        kafka_error=KafkaError(92, "DUPLICATE_RESOURCE"),
    ),
    "too_many_users": Kind(
        422,
        "There is no room for more users",
        "delete users that no client needs",
        kafka_error=KafkaError(44, "POLICY_VIOLATION"),
    ),
    "invalid_quota": Kind(
        422,
        "The quota is not allowed",
        "errors says what it may be",
        kafka_error=KafkaError(42, "INVALID_REQUEST"),
    ),
    "too_many_quotas": Kind(
        422,
        "There is no room for more quotas",
        "the quotas of the default entity are for each that has none of its own",
        kafka_error=KafkaError(44, "POLICY_VIOLATION"),
    ),
    "too_many_changes": Kind(
        422,
        "The request changes more than fits into one step",
        "split it into several requests",
        kafka_error=KafkaError(42, "INVALID_REQUEST"),
    ),
    "broker_without_tls": Kind(
        409,
        "The authorizer needs TLS between the cluster's processes",
        "give each an inter-broker listener of protocol SSL",
        kafka_error=KafkaError(40, "INVALID_CONFIG"),
    ),
    "no_improvement": Kind(
        422, "There is nothing to do, or nothing that may be done would help", "`errors` say why"
    ),
    "plan_infeasible": Kind(
        422, "The goal can't be reached", "`errors` name the partitions, and what keeps each"
    ),
    "unknown_broker": Kind(
        422,
        "The request names a broker that is not registered",
        "GET /clusters/{cluster}/brokers lists those registered",
    ),
    "unknown_coordinator": Kind(
        422,
        "The request names a coordinator that is not registered",
        "GET /clusters/{cluster}/coordinators lists those registered",
    ),
    "coordinator_in_use": Kind(409, "The coordinator is still running", "stop its process first"),
    "group_in_use": Kind(
        409,
        "The group has members",
        "stop its clients: a member that was killed counts until its session.timeout.ms is over",
        kafka_error=KafkaError(68, "NON_EMPTY_GROUP"),
    ),
    "transaction_not_open": Kind(
        409,
        "No transaction is open that could be aborted",
        "look at it again: it has ended, its end is decided, or its producer has begun another one",
        kafka_error=KafkaError(48, "INVALID_TXN_STATE"),
    ),
    "transaction_not_hanging": Kind(
        409,
        "The transaction is not known to hang",
        "GET /clusters/{cluster}/transactions lists those that do; to find them takes a minute",
    ),
    "reset_incomplete": Kind(
        409,
        "Some offsets of the group were not set",
        "errors names them; look at the group, and repeat it for these partitions",
    ),
    "config_changed_since": Kind(
        409,
        "The setting was changed again since",
        "look at the newest change of it, and undo that one, or set the value that is wanted",
    ),
    "records_kept": Kind(
        409,
        "Records of this log can't be deleted",
        "write a record without a value for each key that is to go, or delete the topic",
        kafka_error=KafkaError(44, "POLICY_VIOLATION"),
    ),
    "deletion_protected": Kind(
        409,
        "The topic is guarded against deletion",
        "set its deletion.protected to false first",
        kafka_error=KafkaError(73, "TOPIC_DELETION_DISABLED"),
    ),
    "reserved_topic": Kind(
        422,
        "The topic belongs to the cluster's coordinators",
        "the controller creates it, and it can't be changed",
        kafka_error=KafkaError(17, "INVALID_TOPIC_EXCEPTION"),
    ),
    "ineligible_broker": Kind(
        422,
        "The request names a broker that can't be chosen now",
        "GET /clusters/{cluster}/brokers says what state it is in",
    ),
    "precondition_required": Kind(
        428, "The change needs an If-Match", "read the resource and send its ETag as If-Match"
    ),
    "too_many_looks": Kind(
        429,
        "Other looks at records are under way",
        "a look takes 10 seconds at most; Retry-After says when to ask again",
        retryable=True,
    ),
    "headers_too_large": Kind(
        431, "The header fields are too large", "send fewer or shorter header fields; cookies are not needed"
    ),
    "internal_error": Kind(
        500, "The controller failed to answer", "the controller's log has the request id", retryable=True
    ),
    "overloaded": Kind(
        503,
        "The controller has more to do than it may take on",
        "wait as long as Retry-After says; repeated writes are safe with an Idempotency-Key",
        retryable=True,
    ),
    "metadata_went_back": Kind(
        503,
        "ZooKeeper lost metadata that it once held",
        "the controller decides nothing for this cluster until it is recovered; see docs/backup.md",
    ),
    "cluster_unreadable": Kind(
        503,
        "The active controller can't serve the cluster as its znodes are",
        "run controllers of the release that wrote them instead, or repair what the detail names",
    ),
    "no_active_controller": Kind(
        503, "No controller is active at the moment", "an election is running; try again", retryable=True
    ),
    "coordinator_unavailable": Kind(
        503,
        "No coordinator answers for the group",
        "GET /clusters/{cluster}/coordinators says which are live; groups are served again when one is",
        retryable=True,
        kafka_error=KafkaError(15, "COORDINATOR_NOT_AVAILABLE"),
    ),
    "log_unavailable": Kind(
        503,
        "The leader of a partition does not report its offsets",
        "errors names the partitions; GET .../partitions says why one has no leader",
        retryable=True,
        kafka_error=KafkaError(5, "LEADER_NOT_AVAILABLE"),
    ),
    "look_failed": Kind(
        503,
        "The process that reads records for this look ended without an answer",
        "ask for fewer records, or from behind the one that it could not bear",
        retryable=True,
    ),
    "audit_unavailable": Kind(
        503,
        "The audit database is unavailable",
        "nothing was changed: a change that can't be written down is not made",
        retryable=True,
    ),
    "not_ready": Kind(
        503,
        "This controller can't serve",
        "facts says what it can't reach; ask another controller meanwhile",
        retryable=True,
    ),
    "outcome_unknown": Kind(
        504,
        "The change may or may not have been made",
        "read the resource, or repeat the request with the same Idempotency-Key",
        retryable=True,
    ),
    "not_in_force": Kind(
        504,
        "The change is stored, but not yet in force everywhere",
        "repeat it without If-Match, a creation with `if_not_exists`: it changes nothing more, and waits",
        retryable=True,
    ),
    "not_the_active_controller": Kind(
        307,
        "Only the active controller answers this",
        "follow Location, with the token if one is needed",
        retryable=True,
    ),
}


#: Problems about things that are missing in the metadata or the history that this controller sees, as opposed
#: to an impossible address. A standby answers none of them: only the active controller knows that something
#: does not exist.
UNKNOWN_ENTITY = frozenset(
    {
        "audit_row_not_found",
        "broker_not_found",
        "coordinator_not_found",
        "plan_not_found",
        "cluster_not_found",
        "operation_not_found",
        "partition_not_found",
        "policy_not_found",
        "topic_not_found",
        "user_not_found",
    }
)
