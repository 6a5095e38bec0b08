"""FindCoordinator, while there are neither groups nor transactions.

Groups: COORDINATOR_NOT_AVAILABLE, on which every client waits and asks again, as it would during a failover.
Transactions: TRANSACTIONAL_ID_AUTHORIZATION_FAILED with a message that says why. It is the only code on which
both the Java client and librdkafka stop at once; on any other, one of them asks without end.
"""

from __future__ import annotations

from typing import Any, cast

from springtide.node.handlers.context import NodeContext, Request
from springtide.wire.errors import ErrorCode

KEY_TYPE_GROUP = 0
KEY_TYPE_TRANSACTION = 1

NO_GROUPS = "this cluster has no group coordinator yet: assign partitions instead of subscribing"
NO_TRANSACTIONS = "this cluster has no transactions yet: remove transactional.id"
UNKNOWN_KEY_TYPE = "unknown key type"


def handle(_context: NodeContext, request: Request) -> None:
    message = cast(Any, request.decode())
    key_type = getattr(message, "key_type", KEY_TYPE_GROUP)
    if key_type == KEY_TYPE_GROUP:
        error, text = ErrorCode.COORDINATOR_NOT_AVAILABLE, NO_GROUPS
    elif key_type == KEY_TYPE_TRANSACTION:
        error, text = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS
    else:
        error, text = ErrorCode.INVALID_REQUEST, UNKNOWN_KEY_TYPE
    nowhere = {"node_id": -1, "host": "", "port": -1, "error_code": error, "error_message": text}
    keys = getattr(message, "coordinator_keys", ())  # v4 on: several keys a request (KIP-699)
    request.reply({**nowhere, "coordinators": [{"key": key, **nowhere} for key in keys]})
