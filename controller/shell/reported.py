"""What members have last reported to this controller: in memory, of one cluster, in one term."""

from __future__ import annotations

from controller.core.events import Heartbeat, Report
from controller.core.group_book import GroupBook
from controller.core.image import check_member
from controller.core.rates import RateBook
from controller.core.records import Record, RemoveMemberRecord, RemoveTopicRecord
from controller.shell.published import Published
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import PartitionLag
from springtide.contract.missing_topics import MISSING_TOLD_MAX, MissingTopic
from springtide.contract.partition_state import PartitionKey
from springtide.contract.session import DiskSpace, HeartbeatRequest


class Reported:
    """Takes what registered members' present processes report, and forgets it with what it is about.

    lags: the latest report of each partition's leader. rates: what passed through them.
    disks: of each broker, as its latest heartbeat has it; one that does not report its disk is not in it.
    missing_topics: by member, what its clients miss.
    """

    def __init__(self, published: Published) -> None:
        self.lags: dict[PartitionKey, PartitionLag] = {}
        self.rates = RateBook()
        self.disks: dict[int, DiskSpace] = {}
        self.groups = GroupBook()
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
                self.rates.note(self.lags.get(key), lag, now_ms)
                self.lags[key] = lag
                self._unreported.pop(key, None)

    def take_heartbeat(self, event: Heartbeat, error: ControllerError) -> None:
        """Take what a heartbeat tells of its sender. error: what the heartbeat is answered."""
        request = event.request
        self._take_disk(request)
        self._take_groups(request)
        if error is ControllerError.NONE:
            self.missing_topics.pop(request.broker_id, None)
            if request.missing_topics:
                self.missing_topics[request.broker_id] = request.missing_topics[:MISSING_TOLD_MAX]

    def _take_disk(self, request: HeartbeatRequest) -> None:
        known = self._published.image.brokers.get(request.broker_id)
        if check_member(known, request.broker_epoch) is ControllerError.NONE:
            self.disks.pop(request.broker_id, None)
            if request.disk is not None:
                self.disks[request.broker_id] = request.disk

    def _take_groups(self, request: HeartbeatRequest) -> None:
        known = self._published.image.coordinators.get(request.broker_id)
        if check_member(known, request.broker_epoch) is ControllerError.NONE and request.groups:
            self.groups.note(request.groups)

    def forget(self, record: Record) -> None:
        """Forget what a record removes: no two members have one id, but one may follow another. Call before
        the record is published."""
        match record:
            case RemoveTopicRecord(topic_id=topic_id):
                self._forget_topic(topic_id)
            case RemoveMemberRecord(member_id=member_id):
                self.missing_topics.pop(member_id, None)
                self.disks.pop(member_id, None)
            case _:
                pass

    def _forget_topic(self, topic_id: str) -> None:
        topic = self._published.image.topics.get(topic_id)
        for partition in range(0 if topic is None else topic.partitions):
            self.lags.pop((topic_id, partition), None)
            self.rates.forget((topic_id, partition))
            self._unreported.pop((topic_id, partition), None)

    def first_unreported(self) -> PartitionKey | None:
        """Return a partition that was taken over, whose leader is there and has not reported since, or
        None."""
        image = self._published.image
        for key in self._unreported:
            state = image.partitions.get(key)
            if state is not None and image.is_eligible(state.leader) and not image.topics[key[0]].deleting:
                return key
        return None
