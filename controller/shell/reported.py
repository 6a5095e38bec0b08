"""What members have last reported to this controller: in memory, of one cluster, in one term."""

from __future__ import annotations

from controller.core.events import Heartbeat, Report
from controller.core.group_book import GroupBook
from controller.core.image import check_member
from controller.core.lag_book import LagBook
from controller.core.last_hour import LastHour, PartitionTotals
from controller.core.rates import PresentRates, RateBook
from controller.core.records import Record, RemoveMemberRecord, RemoveTopicRecord
from controller.shell.published import Published
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import PartitionLag
from springtide.contract.missing_topics import MISSING_TOLD_MAX, MissingTopic
from springtide.contract.partition_state import PartitionKey
from springtide.contract.session import DiskSpace, HeartbeatRequest


class Reported:
    """Takes what registered members' present processes report, and forgets it with what it is about.

    lags: the latest report of each partition's leader. rates, present: what passed through them.
    disks: of each broker, as its latest heartbeat has it; one that does not report its disk is not in it.
    group_lags: of client groups.
    missing_topics: by member, what its clients miss. last_hour: figures over time.
    """

    def __init__(self, published: Published) -> None:
        self.lags: dict[PartitionKey, PartitionLag] = {}
        self.rates = RateBook()
        self.present = PresentRates()
        self.disks: dict[int, DiskSpace] = {}
        self.groups = GroupBook()
        self.last_hour = LastHour()
        self.group_lags = LagBook()
        self.missing_topics: dict[int, tuple[MissingTopic, ...]] = {}
        self._published = published
        # Partitions that this controller took over, but for those whose leaders have reported since.
        self._unreported: dict[PartitionKey, None] = {}

    def await_reports(self) -> None:
        """Begin to count the partitions of which nothing has been reported: those there are now."""
        self._unreported = dict.fromkeys(self._published.image.partitions)

    def take_report(self, event: Report, now_ms: int) -> None:
        """Take the lags of partitions that the reporter leads."""
        image = self._published.image
        for lag in event.request.lags:
            key = (lag.topic_id, lag.partition)
            state = image.partitions.get(key)
            if state is not None and state.leader == event.request.broker_id:
                before = self.lags.get(key)
                came, went = self.rates.note(before, lag, now_ms)
                self.last_hour.note_partition(
                    lag.topic_id,
                    state.leader,
                    came=came,
                    went=went,
                    size=lag.size_bytes,
                    size_before=None if before is None else before.size_bytes,
                )
                self.present.note(before, lag, state.leader, now_ms)
                self.lags[key] = lag
                self._unreported.pop(key, None)

    def take_heartbeat(self, event: Heartbeat, error: ControllerError) -> None:
        """Take what a heartbeat tells of its sender. error: what the heartbeat is answered."""
        request = event.request
        self._take_load(request, event.received_ms)
        self._take_disk(request)
        self._take_groups(request, event.received_ms)
        if error is ControllerError.NONE:
            self.missing_topics.pop(request.broker_id, None)
            if request.missing_topics:
                self.missing_topics[request.broker_id] = request.missing_topics[:MISSING_TOLD_MAX]

    def _take_load(self, request: HeartbeatRequest, received_ms: int) -> None:
        known = self._published.image.member(request.broker_id)
        if check_member(known, request.broker_epoch) is ControllerError.NONE:
            self.last_hour.note_member(request.broker_id, request.incarnation_id, request.load, received_ms)

    def _take_disk(self, request: HeartbeatRequest) -> None:
        known = self._published.image.brokers.get(request.broker_id)
        if check_member(known, request.broker_epoch) is ControllerError.NONE:
            self.disks.pop(request.broker_id, None)
            if request.disk is not None:
                self.disks[request.broker_id] = request.disk

    def _take_groups(self, request: HeartbeatRequest, received_ms: int) -> None:
        known = self._published.image.coordinators.get(request.broker_id)
        if check_member(known, request.broker_epoch) is ControllerError.NONE and request.groups:
            self.groups.note(request.groups)
            self.group_lags.note(request.groups.lags, received_ms)
            self.last_hour.note_lags(request.broker_id, request.groups.lags)

    def sample(self, *, now_ms: int, wall_ms: int) -> None:
        """Keep a sample of what was reported, if it is time for one."""
        if self.last_hour.is_due(now_ms):
            image = self._published.image
            totals = PartitionTotals(
                under_replicated=sum(key[0] in image.topics for key in image.under_replicated),
                leaderless=len(image.leaderless),
            )
            self.last_hour.sample(totals, self.disks, now_ms=now_ms, wall_ms=wall_ms)

    def forget(self, record: Record) -> None:
        """Forget what a record removes: no two members have one id, but one may follow another. Call before
        the record is published."""
        match record:
            case RemoveTopicRecord(topic_id=topic_id):
                self._forget_topic(topic_id)
            case RemoveMemberRecord(member_id=member_id):
                self.missing_topics.pop(member_id, None)
                self.disks.pop(member_id, None)
                self.last_hour.forget_member(member_id)
                self.present.forget_broker(member_id)
            case _:
                pass

    def _forget_topic(self, topic_id: str) -> None:
        self.present.forget_topic(topic_id)
        topic = self._published.image.topics.get(topic_id)
        for partition in range(0 if topic is None else topic.partitions):
            self.lags.pop((topic_id, partition), None)
            self.rates.forget((topic_id, partition))
            self._unreported.pop((topic_id, partition), None)
        self.last_hour.forget_topic(topic_id)

    def first_unreported(self) -> PartitionKey | None:
        """Return a partition that was taken over, whose leader is there and has not reported since, or
        None."""
        image = self._published.image
        for key in self._unreported:
            state = image.partitions.get(key)
            if state is not None and image.is_eligible(state.leader) and not image.topics[key[0]].deleting:
                return key
        return None
