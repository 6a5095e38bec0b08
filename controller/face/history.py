"""What was changed, by whom and why, and what was checked since."""

from __future__ import annotations

from controller.audit.history import AuditedOutcome, Intent, RequestOutcome, append_intent, append_outcome
from controller.audit.outbox import AuditOutbox
from controller.audit.placements import Page, Placement, Position, audited_since_ms, placements_at
from controller.audit.provenance import Origin, ReplicaOrigins, explain_replicas
from controller.audit.queries import AuditFilter, AuditRow, get_row, list_rows
from controller.audit.receipts import Receipt, begun_moves, read_receipt
from controller.audit.removal import Recorded
from controller.audit.safety import Stretch, StretchTally, Worst
from controller.audit.setting_changes import (
    SettingChange,
    SettingChangeFilter,
    last_set,
    list_setting_changes,
    setting_changes,
)
from controller.audit.verification import MismatchCode, Verification, verify
from controller.database.verification_rows import (
    FindingRow,
    VerificationRow,
    get_verification,
    insert_verification,
    list_findings,
    list_verifications,
)
