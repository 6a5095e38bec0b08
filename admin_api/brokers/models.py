"""The REST models of brokers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, StringConstraints, Tag, model_validator

from admin_api.http.models import (
    BodyMoment,
    BrokerId,
    Endpoint,
    LastChange,
    ListenerView,
    NoSpaceAround,
    Reason,
    RequestBody,
    View,
    ViewList,
    milliseconds,
)
from admin_api.operations.models import ConcurrentMoves, MoveHours, Throttle, daily
from admin_api.plans.models import PlanView, TargetPermille
from controller.face.operations import CONCURRENT_MOVES, MoveOptions
from controller.face.plans import DISK_PERMILLE

BROKERS_PER_REQUEST_MAX = 100
LABELS_MAX = 64
ADDED_BROKER: dict[str, Any] = {
    "broker_id": 4,
    "endpoint": "store4:9092",
    "rack": "r2",
    "reason": "capacity for Q4",
    "rebalance": {"mode": "new_only", "throttle_bytes_per_s": 50_000_000, "max_concurrent_moves": 5},
}
LabelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._/-]{1,63}$")]
LabelText = Annotated[str, StringConstraints(max_length=255, strip_whitespace=True)]
Rack = Annotated[str, Field(min_length=1, max_length=255), NoSpaceAround]


class MoveLimits(RequestBody):
    """How data may be moved."""

    throttle_bytes_per_s: Throttle | None = Field(
        default=None, description="how much each broker may copy for it. Default: unthrottled"
    )
    max_concurrent_moves: ConcurrentMoves = CONCURRENT_MOVES
    not_before: BodyMoment | None = Field(
        default=None,
        description="data is moved from then on, by a plan that is made then; until then the operation is "
        "`scheduled`",
    )
    window: MoveHours | None = Field(
        default=None, description="when moves begin and plans for them are made. Default: at any time"
    )

    def options(self) -> MoveOptions:
        return MoveOptions(
            throttle_bytes_per_s=self.throttle_bytes_per_s,
            max_concurrent_moves=self.max_concurrent_moves,
            not_before_ms=milliseconds(self.not_before),
            window=daily(self.window),
        )


class RebalanceOptions(MoveLimits):
    """How data that is already stored is rebalanced."""

    mode: Literal["new_only", "full", "none"] = Field(
        default="new_only",
        description=(
            "`new_only`: the new brokers get their share, from all others; `full`: everything is evened out, "
            "between the others, too; `none`: nothing is moved. A broker that replaces another takes its "
            "places, even if this says otherwise."
        ),
    )
    disk_target_permille: TargetPermille | None = Field(
        default=DISK_PERMILLE, description="as of a plan that rebalances; null: numbers alone count"
    )


class BrokerSpec(RequestBody):
    broker_id: BrokerId
    endpoint: Endpoint
    rack: Rack | None = Field(
        default=None, description="checked against what the broker says, when given", examples=["r2"]
    )
    replaces: BrokerId | None = Field(
        default=None,
        description="a broker, alive or not, whose every place it takes; that one can be deleted then",
        examples=[None],
    )


class AddBroker(BrokerSpec):
    """One broker to be added."""

    model_config = ConfigDict(json_schema_extra={"examples": [ADDED_BROKER]})

    rebalance: RebalanceOptions = RebalanceOptions()
    reason: Reason | None = None


class AddBrokers(RequestBody):
    """Several brokers to be added together: either all are admitted or none."""

    brokers: Annotated[list[BrokerSpec], Field(min_length=1, max_length=BROKERS_PER_REQUEST_MAX)]
    rebalance: RebalanceOptions = RebalanceOptions()
    reason: Reason | None = None


def _which(value: Any) -> str:
    many = "brokers" in value if isinstance(value, dict) else isinstance(value, AddBrokers)
    return "AddBrokers" if many else "AddBroker"


AddBrokersBody = Annotated[
    Annotated[AddBroker, Tag("AddBroker")] | Annotated[AddBrokers, Tag("AddBrokers")], Discriminator(_which)
]


class ChangeBroker(RequestBody):
    """Changes of a broker. A field that is left out stays as it is."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"cordoned": True, "reason": "its disks are getting full"}]}
    )

    cordoned: bool | None = Field(
        default=None, description="a cordoned broker gets no new replicas, and keeps those it has"
    )
    rack: Rack | None = Field(
        default=None, description="where it stands, over what it says itself; null: what it says counts again"
    )
    labels: dict[LabelName, LabelText | None] = Field(
        default={},
        max_length=LABELS_MAX,
        description="an operator's notes: set, or removed (null); those not named stay",
        examples=[{"owner": "storage"}],
    )
    reason: Reason | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ChangeBroker:
        given = self.model_fields_set - {"reason"}
        if not given or (given == {"cordoned"} and self.cordoned is None):
            raise ValueError("no change was asked for: name cordoned, rack or labels")
        return self


class MaintainBroker(RequestBody):
    """The reason why a broker is demoted or returned."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "a new kernel for store1"}]})

    reason: Reason | None = None


class DrainBroker(MoveLimits):
    """How a broker is to be emptied."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"throttle_bytes_per_s": 50_000_000, "reason": "store3 is to be taken offline"}]
        }
    )

    reason: Reason | None = None


class WorkerView(View):
    """A worker of a broker: one process of its host."""

    worker: int = Field(description="its number", examples=[1])
    broker_id: int = Field(
        description="its id to clients, in partitions and in plans: the broker's own and a million for each "
        "number",
        examples=[1_000_001],
    )
    state: str = Field(description="as of a broker", examples=["active"])
    endpoint: str = Field(examples=["store1:9093"])
    replicas: int = Field(description="partitions assigned to it")
    leaders: int = Field(description="partitions it leads")


class BrokerView(View):
    """A broker as the controller knows it."""

    broker_id: int = Field(examples=[1])
    state: str = Field(
        description=(
            "`waiting`: registered, not added; `fenced`: added, not (or no longer) live; `active`; "
            "`shutting_down`; of several workers, that of the one that is worst off"
        ),
        examples=["active"],
    )
    cordoned: bool = Field(description="it gets no new replicas, and keeps those it has")
    draining: bool = Field(description="it gets no new replicas and is being emptied")
    drained: bool = Field(description="it is draining and holds nothing any more: it can be taken offline")
    demoted: bool = Field(description="it leads only what no other broker may")
    endpoint: str = Field(examples=["store1:9092"])
    listeners: list[ListenerView] = Field(description="all of them, where they have names; else none")
    workers: list[WorkerView] = Field(
        description="of one that runs several, by number; else none. Epoch, endpoint and disk are the first's"
    )
    rack: str | None = Field(description="what counts: an operator's word, or the broker's own")
    assigned_rack: str | None = Field(description="what an operator set; null: the broker's word counts")
    labels: dict[str, str] = Field(description="an operator's notes", examples=[{"owner": "storage"}])
    broker_epoch: int = Field(description="names this run of the broker; grows with every start")
    incarnation_id: str
    log_dirs: list[str] = Field(description="ids of usable log directories")
    offline_log_dirs: list[str]
    disk_free_bytes: int | None = Field(description="where its logs are; null: not known")
    disk_total_bytes: int | None = Field(description="null: not known, and always on a standby")
    deleted_topics_bytes: int = Field(description="of its disk: logs of deleted topics that are kept")
    connections: int | None = Field(
        description="open now; null: not known, and always on a standby", examples=[14]
    )
    requests_per_s: float | None = Field(
        description="from clients and between processes, on the average of the last sample of half a minute; "
        "null: not known, and always on a standby",
        examples=[81.4],
    )
    bytes_in_per_s: int | None = Field(
        description="from producers, to all its workers, an average of about the last minute; null: not "
        "known, as on a standby",
        examples=[52_000],
    )
    bytes_out_per_s: int | None = Field(
        description="to consumers, without copies between brokers; as above", examples=[104_000]
    )
    last_shutdown: str = Field(description="how the run before this one ended", examples=["clean"])
    version: str
    registered_at: str
    replicas: int = Field(description="partitions assigned to it")
    leaders: int = Field(description="partitions it leads")
    last_change: LastChange | None


class BrokerList(ViewList[BrokerView]): ...


class MaintenancePlan(View):
    """The effects of demoting or returning a broker."""

    broker: BrokerView
    leaders_moved: int = Field(description="leaderships that would move at once", examples=[4])
    warnings: list[str] = Field(description="what the operation would wait for")


class CheckView(View):
    """One check that a waiting broker must pass before it is admitted."""

    broker_id: int
    name: str = Field(
        description="`report`, `listener`, `peers`, `clock`, `disk_space`, `disk_flush` or `rack`",
        examples=["listener"],
    )
    state: str = Field(description="`passed`, `failed` or `pending`", examples=["passed"])
    code: str = Field(description="of one that has not passed: why", examples=["listener_unreachable"])
    detail: str


class BrokerPlan(View):
    """The effects of adding these brokers."""

    brokers: list[int]
    moves: int = Field(default=0, description="partitions that would change, by all plans together")
    bytes: int = Field(default=0, description="that would be copied")
    warnings: list[str] = Field(description="what the operation would wait for")
    checks: list[CheckView] = Field(description="of those that have registered and wait")
    plans: list[PlanView] = Field(
        description="what would be moved, one plan after the other, each as the cluster is now"
    )
