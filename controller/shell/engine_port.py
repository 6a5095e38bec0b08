"""What the REST surface needs of the engine, as a protocol.

The composition root passes `controller.shell.engine.Engine`; tests pass the same core behind a smaller
shell. Everything but `submit` and `create_cluster` answers at once, from memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from controller.contract.holdings import SetAsideLog
from controller.contract.lag_report import PartitionLag
from controller.contract.partition_state import PartitionKey
from controller.core.effects import Alarm
from controller.core.events import Event, MetadataRecovered, RecoverMetadata, Refusal, Reply
from controller.core.image import ClusterImage
from controller.core.loss import LossPreview
from controller.core.preflight import Check
from controller.core.reassignment_progress import ReassignmentProgress
from controller.shell.published import Published


class EnginePort(Protocol):
    """Exceptions are those of controller.shell.outcomes."""

    @property
    def role(self) -> str:
        """`active` or `standby`."""
        ...

    @property
    def url(self) -> str:
        """This controller's own base URL."""
        ...

    @property
    def active_url(self) -> str | None:
        """The active controller's base URL, as far as known; may be this controller's own."""
        ...

    @property
    def controller_epoch(self) -> int: ...
    @property
    def zookeeper_connected(self) -> bool: ...

    def expiry_ms(self) -> int | None:
        """The time by which something may have expired; None: nothing may be removed by time now."""
        ...

    async def submit(self, cluster: str, event: Event) -> Reply | None:
        """The machine's answer, once what it rests on is persisted. Raises NotActive, UnknownCluster,
        OutcomeUnknown, Overloaded."""
        ...

    async def create_cluster(
        self,
        name: str,
        *,
        configs: Mapping[str, str],
        actor: str,
        reason: str | None = None,
        request_id: str | None = None,
        operation_id: str | None = None,
    ) -> None:
        """Raises ClusterExists and what `submit` raises."""
        ...

    def clusters(self) -> Sequence[str]:
        """Names, ascending. Raises NotActive on a standby that has not read them yet."""
        ...

    def image(self, cluster: str) -> Published:
        """As this controller can show it now: `as_of_ms` is None where it is current, that is, on the active
        one. Take what belongs together without awaiting. Raises UnknownCluster."""
        ...

    def decided(self, cluster: str) -> ClusterImage:
        """With what has been decided and not been persisted yet. Raises NotActive, UnknownCluster."""
        ...

    def alarms(self, cluster: str) -> Sequence[Alarm]:
        """Most severe first. Raises NotActive, UnknownCluster."""
        ...

    async def recover_metadata(self, cluster: str, event: RecoverMetadata) -> MetadataRecovered | Refusal:
        """Raises what `submit` raises."""
        ...

    def set_aside(self, cluster: str) -> Mapping[int, Sequence[SetAsideLog]]:
        """What each broker has in quarantine. Raises NotActive, UnknownCluster."""
        ...

    def went_back(self, cluster: str) -> str | None:
        """How it is known that ZooKeeper lost metadata of this cluster; None when it is not."""
        ...

    def reassignments(self, cluster: str) -> Sequence[ReassignmentProgress]:
        """Every running one, by topic id and partition. Raises NotActive, UnknownCluster."""
        ...

    def preflight(self, cluster: str, broker_ids: Sequence[int]) -> Sequence[Check]:
        """What is known of brokers that wait to be added. Raises NotActive, UnknownCluster."""
        ...

    def explain(self, cluster: str, key: PartitionKey) -> str | None:
        """Why a partition has no leader, replica by replica; None when it has one. Raises UnknownCluster."""
        ...

    def loss_preview(self, cluster: str, key: PartitionKey) -> LossPreview | None:
        """What each choice of a leader would lose; None when the partition has one. Raises NotActive,
        UnknownCluster."""
        ...

    def lag(self, cluster: str, key: PartitionKey) -> PartitionLag | None:
        """What the partition's leader reported last."""
        ...

    def first_unreported(self, cluster: str) -> PartitionKey | None:
        """A partition that this controller took over, whose leader is there and has not reported since; None:
        no more. Raises NotActive, UnknownCluster."""
        ...

    def served_for_ms(self, cluster: str) -> int:
        """Since this controller took the cluster over, or created it. Raises NotActive, UnknownCluster."""
        ...
