"""The SQL database, and the rows that belong to requests rather than to clusters."""

from __future__ import annotations

from controller.database import idempotency
from controller.database.idempotency import Claimed, InProgress, OtherBody, Replay
from controller.database.operation_rows import OperationFilter, get_operation, list_operations
from controller.database.rows import LaterRelease, MoveRow, OperationRow, PlanRow
from controller.database.schema import why_not_ready
from controller.database.sql import Database, DatabaseRejected, DatabaseUnavailable
