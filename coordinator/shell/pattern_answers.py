"""What the patterns of a group stand for: matched and asked for rights on the loop, a part at a time."""

from __future__ import annotations

import logging

import trio

from coordinator.core.groups.consumer.patterns import (
    RESOLVED_BYTES_MAX,
    InvalidPattern,
    Pattern,
    PatternAnswer,
    PatternQuestion,
)
from springtide.node.authorization import describing
from springtide.node.cluster_view import ClusterView

_log = logging.getLogger(__name__)

NAMES_PER_TURN = 200
"""A millisecond or two of the loop, where rights have to be asked for."""


async def answer_patterns(view: ClusterView, question: PatternQuestion) -> PatternAnswer:
    """Return the topics of each pattern that all of its subscribers may DESCRIBE, by the ACLs of now."""
    answer: dict[str, tuple[str, ...]] = {}
    for text, subscribers in question.asked.items():
        try:
            pattern = Pattern(text)
        except InvalidPattern as error:  # another release wrote it, whose engine took it
            _log.warning("pattern_invalid group=%s cause=%s", question.group_id, error)
            answer[text] = ()
            continue
        may_describe = [describing(view, who.principal, who.host) for who in sorted(subscribers)]
        found: list[str] = []
        for start in range(0, len(question.names), NAMES_PER_TURN):
            names = filter(pattern.matches, question.names[start : start + NAMES_PER_TURN])
            found += (name for name in names if all(may(name) for may in may_describe))
            await trio.lowlevel.checkpoint()
        if sum(map(len, found)) > RESOLVED_BYTES_MAX:
            _log.warning("pattern_too_wide group=%s topics=%d", question.group_id, len(found))
        else:
            answer[text] = tuple(found)
    return answer
