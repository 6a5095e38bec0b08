"""Which clients find coordinators among the nodes of Metadata. Pure.

Coordinators are no brokers: tools that walk through the list place replicas there, read settings, count. But
many clients look the node that FindCoordinator names up in this very list. What a group's members did when it
had no coordinators, while they asked for metadata every few seconds:

- librdkafka 2.16 forgets nodes that an answer leaves out: 1,636 requests for a coordinator in 25 s.
- Sarama 1.61 does, too: its application is told of a broken connection whenever a commit is under way.
- franz-go 1.22, KafkaJS 2.2 and @platformatic/kafka 1.35 never join. Each asks once more, for some topics or
  for nodes only, before it looks there.
- Java's consumer needs none; its administration describes no group: "timed out waiting for a node".
- aiokafka 0.14 never joins. Where a pattern says what it reads, it asks for all topics only.
- kafka-go 0.4's members need none; its Client asks for all topics, and fails each call for a group: "broker
  not available".

Tools, also those made with these libraries, ask for all topics: `kcat -L`, list_topics(), KafkaJS'
administration, kafka_exporter. So do members that read by pattern, and Sarama's now and then, but mostly over
connections that show them: they fetch, ask for a coordinator, or lead to one. Where not, coordinators are
missing from one answer: librdkafka's members by pattern, which asked each second for 25 s over any
connection, had no rebalance, no error, and no record twice.

One answer was one too many for the administration of librdkafka 2.16: having committed a group's offsets, it
listed all topics, and its next call for the group waited a minute, at full load, for the node that it was
forgetting (6 of 15 programs). So the bindings of librdkafka find coordinators always.
"""

from __future__ import annotations

import re
from typing import Final

NEVER: Final = frozenset({"kafka-python"})
"""Software, as it names itself, that keeps the address that FindCoordinator tells. Its administration asks
for nodes only, as others' members do."""
UNNAMED_VERSIONS: Final = frozenset({*range(6), 8})
"""Versions of Metadata that clients ask in which do not name themselves, but look coordinators up among all
topics' nodes: aiokafka up to 5, kafka-go in 8, as does Java's administration before 2.4. Others that do not
ask in others: KafkaJS in 6, franz-go in 13, old Sarama by the release of Kafka that it is set to."""

RDKAFKA: Final = re.compile(r"-rdkafka-(\d+)\.(\d+)")
"""In the version that a binding of librdkafka gives, after its own."""
FORGETS_SINCE: Final = (2, 10)
"""The first librdkafka that forgets nodes which an answer leaves out."""


def are_listed(
    software: str, *, unknown: str, api_version: int, all_topics: bool, may_be_members: bool
) -> bool:
    """Return whether the answer to a Metadata request lists coordinators.

    software: name and version; unknown: what it is of a client that named none. all_topics: the request asks
    for all. may_be_members: its connection has carried what a group's member sends.
    """
    if software.partition(" ")[0] in NEVER:
        return False
    if software == unknown and api_version in UNNAMED_VERSIONS:
        return True
    return may_be_members or not all_topics or _is_forgetful_binding(software)


def _is_forgetful_binding(software: str) -> bool:
    """Tell a binding, which has one client for all that its user does, from kcat and other programs in C."""
    found = RDKAFKA.search(software)
    if found is None or software.partition(" ")[0] == "librdkafka":
        return False
    return (int(found[1]), int(found[2])) >= FORGETS_SINCE


def comes_as_member(software: str) -> bool:
    """Return whether a client that asks a coordinator for Metadata may be a group's member.

    librdkafka asks any node that it knows of, and its tools know coordinators once they listed groups.
    """
    return "rdkafka" not in software
