"""Plans of moves: goals, how one is made, and where it is kept."""

from __future__ import annotations

from controller.core.planning.goals import (
    DISK_PERMILLE,
    Assign,
    ChangeReplicationFactor,
    Drain,
    EvenOut,
    Goal,
    Rebalance,
    RebalanceMode,
    Relieve,
    Replace,
    SeparateReplicas,
    WantedAssignment,
    Weight,
)
from controller.core.planning.plan import (
    Level,
    Levels,
    Load,
    Move,
    Plan,
    PlanOutcome,
    Rejection,
    RejectionCode,
    content_hash,
)
from controller.core.planning.planner import make_plan
from controller.core.planning.replanning import drifted, moves_within, replanned, without
from controller.core.planning.snapshot import BrokerSnapshot, Measured, Rates, Snapshot, room_of
from controller.database.plan_rows import (
    delete_plan,
    get_moves,
    get_plan,
    list_plans,
    plan_ids_of,
    plan_row,
    plan_without_moves,
    plans_of,
)
from controller.operations.shell.plans import (
    PlanOrigin,
    StoredPlan,
    find_plan,
    make,
    plan_id_of,
    snapshot_of,
    store_plan,
)
