"""What kazoo's answers mean, as values of the `Meta` port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)

from controller.shell.meta import Committed, Node, Outcome, Rejected, Unknown, WriteRejection

#: Types of failure that ZooKeeper *stated* about an operation: definite.
_REJECTIONS: Final[tuple[tuple[type[KazooException], WriteRejection], ...]] = (
    (BadVersionError, WriteRejection.BAD_VERSION),
    (NoNodeError, WriteRejection.NO_NODE),
    (NodeExistsError, WriteRejection.NODE_EXISTS),
    (NotEmptyError, WriteRejection.NOT_EMPTY),
)


def node_of(value: Any) -> Node:
    """Return the node that an answer of kazoo's `get` describes."""
    data, stat = value
    return Node(
        data=data,
        version=stat.version,
        owner=stat.ephemeralOwner,
        created_zxid=stat.czxid,
        modified_ms=stat.mtime,
    )


def outcome_of_multi(results: Sequence[object], operations: int) -> Outcome:
    """ZooKeeper answers a failed multi with one error per operation: the culprit's own, "rolled back" for
    those before it and "runtime inconsistency" for those after it."""
    errors = [(index, result) for index, result in enumerate(results) if isinstance(result, Exception)]
    if not errors and len(results) == operations:
        return Committed()
    for index, error in errors:
        if isinstance(error, (RolledBackError, RuntimeInconsistency)):
            continue
        for kind, reason in _REJECTIONS:
            if isinstance(error, kind):
                return Rejected(index, reason, describe(error))
        return Rejected(index, WriteRejection.REFUSED, describe(error))
    return Unknown(f"ZooKeeper answered {len(results)} results for {operations} operations")


def describe(error: BaseException) -> str:
    if isinstance(error, NoAuthError):
        return "ZooKeeper's ACLs let no identity of --zookeeper-auth-file do this"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
