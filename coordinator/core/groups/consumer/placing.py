"""A new target on its way: asked for, and written member by member.

Records of a large target take longer than a loop may be held, so a step writes some of them only. Until the
last, which is the target's epoch, the group is one whose target is due: its members go on with what they were
told, and who has which partition is what counts (I30). Members that are gone by then are left out; the place
of a static member is that of whichever process has its instance.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.core.groups.consumer.assigning import Answer, AskedMember, Numbering, TargetQuestion
from coordinator.core.groups.consumer.draft import GroupDraft
from coordinator.core.topic_partitions import PartitionsByTopic

STEP_WEIGHT_MAX = 1_000
"""What a step writes at most, in topics of members' targets: about 10 ms with all that follows."""
_CHANGED_WEIGHT = 5
"""Of a member's record, beside its topics."""


class Placing:
    """rest: what is still to be written; None: the answer is not there yet. to_move: how many partitions it
    gives to other members than the target before, as far as it is written."""

    __slots__ = ("_numbering", "_rest", "question", "to_move")

    def __init__(self, question: TargetQuestion) -> None:
        self.question = question
        self.to_move = 0
        self._numbering = Numbering(question.topics, question.starts)
        self._rest: Iterator[tuple[AskedMember, list[int] | None]] | None = None

    @property
    def is_answered(self) -> bool:
        return self._rest is not None

    def answer(self, answer: Answer) -> None:
        self._rest = zip(self.question.members, answer, strict=True)

    def write(self, draft: GroupDraft) -> bool:
        """Change the next members of the draft. Return whether there are no more."""
        assert self._rest is not None
        weight = 0
        for asked, numbers in self._rest:
            weight += 1 if numbers is None else self._place(draft, asked, numbers)
            if weight >= STEP_WEIGHT_MAX:
                return False
        return True

    def _place(self, draft: GroupDraft, asked: AskedMember, numbers: list[int]) -> int:
        """Give a member its part, or the process that has its instance now. Return what that weighs."""
        member_id = asked.member_id
        if draft[member_id] is None and asked.instance_id is not None:
            member_id = draft.group.instances.get(asked.instance_id, member_id)
        member = draft[member_id]
        if member is None:
            return 1
        target = self._numbering.partitions(numbers)
        if target != member.target:
            self.to_move += _gained(member.target, target)
            draft.changed[member_id] = member._replace(target=target)
        return _CHANGED_WEIGHT + len(target)


def _gained(before: PartitionsByTopic, after: PartitionsByTopic) -> int:
    return sum(len(set(numbers).difference(before.get(topic_id, ()))) for topic_id, numbers in after.items())
