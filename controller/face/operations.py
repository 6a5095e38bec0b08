"""Work that outlives its request: its kinds, how each begins and ends, how fast it may go, what runs it."""

from __future__ import annotations

from controller.operations.advance import finished_election
from controller.operations.brokers import (
    begin_broker_add,
    begin_broker_drain,
    endpoint_of,
    goals_of,
    mismatch,
)
from controller.operations.execution import begin_execution, begin_plan_execution
from controller.operations.hours import DailyWindow
from controller.operations.model import (
    CONCURRENT_MOVES,
    CONCURRENT_MOVES_MAX,
    FINISHED,
    NOT_STARTED,
    REFUSED_SHOWN,
    BrokerAdd,
    BrokerDemote,
    BrokerDrain,
    BrokerReturn,
    BrokerToAdd,
    Cancellation,
    CancelMode,
    Execution,
    Fate,
    LeaderElection,
    MoveOptions,
    OperationError,
    OperationState,
    OperationStep,
    PartitionsAdd,
    PlanExecution,
    PreferredElection,
    Reassignment,
    ReassignmentCancel,
    ReassignmentMove,
    Refused,
    ReplicationFactorChange,
    Spec,
    StepState,
    TopicDelete,
    Work,
    decode_work,
    encode_work,
    kind_of,
    state_of,
)
from controller.operations.outcome import PlanOrder
from controller.operations.pace import OperationPace
from controller.operations.reassignments import (
    Progress,
    advance_reassignment,
    begin_reassignment,
    fate_of,
    finished_cancel,
)
from controller.operations.shell.runner import OperationsRunner
from controller.operations.tally import counted
from controller.operations.waiting import (
    advance_demotion,
    begin_demotion,
    begin_partitions_add,
    begin_topic_delete,
    finished_return,
)
