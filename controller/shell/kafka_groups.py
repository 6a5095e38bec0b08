"""Client groups over the Kafka protocol: each coordinator is asked for its groups, a group's own coordinator
for the group, and leaders for the logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import anyio.to_thread

from controller.shell.client_groups import (
    CommittedPlace,
    GroupAbsent,
    GroupDetail,
    GroupListing,
    GroupsUnavailable,
    LogPosition,
    Place,
)
from controller.shell.group_messages import (
    check_deleted,
    check_records_deleted,
    committed,
    deletion,
    described,
    described_consumers,
    fetch,
    first_times,
    listings,
    offset_commit,
    positions,
    unset,
)
from controller.shell.kafka_connection import KafkaPeer, NodeLost
from controller.shell.kafka_questions import QUESTION_MS_MAX, KafkaQuestions, Way, at_once, by_leader
from controller.shell.outcomes import OutcomeUnknown
from springtide.levels import CONSUMER_GROUPS, allows
from springtide.wire.apis import ApiKey
from springtide.wire.questions import list_offsets

PARTITIONS_PER_REQUEST_MAX: Final = 2_000
RECORD_TIMES_MS_MAX: Final = 1_500


class KafkaGroups(KafkaQuestions):
    """Implements ClientGroups."""

    async def listed(self, cluster: str) -> tuple[list[GroupListing], list[str]]:
        fields = {"states_filter": ()}
        found, errors = await self.of_each_coordinator(cluster, ApiKey.LIST_GROUPS, fields, listings)
        return list(found.values()), errors

    async def described(self, cluster: str, group_id: str) -> GroupDetail:
        ask = partial(self.of_coordinator, cluster, group_id)
        try:
            return await ask(ApiKey.DESCRIBE_GROUPS, {"groups": (group_id,)}, described)
        except GroupAbsent as absent:
            if not allows(self.view_of(cluster).image.level, CONSUMER_GROUPS):
                raise
            fields = {"group_ids": (group_id,)}
            try:
                return await ask(ApiKey.CONSUMER_GROUP_DESCRIBE, fields, described_consumers)
            except GroupAbsent:
                raise absent from None

    async def committed(self, cluster: str, group_id: str) -> dict[Place, CommittedPlace]:
        fields = {"group_id": group_id, "topics": None}
        return await self.of_coordinator(cluster, group_id, ApiKey.OFFSET_FETCH, fields, committed)

    async def log_offsets(self, cluster: str, wanted: Mapping[Place, int]) -> dict[Place, LogPosition]:
        view = self.view_of(cluster)
        found: dict[Place, LogPosition] = {}

        async def ask_one(way: Way, node: KafkaPeer, places: Sequence[Place]) -> None:
            with suppress(NodeLost):
                for start in range(0, len(places), PARTITIONS_PER_REQUEST_MAX):
                    asked = {at: wanted[at] for at in places[start : start + PARTITIONS_PER_REQUEST_MAX]}
                    told = positions(await way.ask(node, ApiKey.LIST_OFFSETS, list_offsets(asked)))
                    found.update((place, told[place]) for place in asked if place in told)

        if wanted:
            async with self.way(view) as way:
                await at_once(partial(ask_one, way, node, led) for node, led in by_leader(view, wanted))
        return found

    async def record_times(self, cluster: str, wanted: Mapping[Place, int]) -> dict[Place, int]:
        view = self.view_of(cluster)
        found: dict[Place, int] = {}

        async def read_one(way: Way, node: KafkaPeer, places: Sequence[Place]) -> None:
            left = {place: wanted[place] for place in places}
            with suppress(NodeLost):
                async with way.connected(node) as connection:
                    while left:
                        fetched = await fetch(node, connection, left)
                        times, left = await anyio.to_thread.run_sync(first_times, fetched, left)
                        found.update(times)

        if wanted:
            async with self.way(view) as way:
                with self._clock.timeout_ms(RECORD_TIMES_MS_MAX):
                    await at_once(partial(read_one, way, node, led) for node, led in by_leader(view, wanted))
        return found

    async def commit(self, cluster: str, group_id: str, offsets: Mapping[Place, int]) -> dict[Place, str]:
        fields = offset_commit(group_id, offsets)
        return await self.of_coordinator(
            cluster, group_id, ApiKey.OFFSET_COMMIT, fields, unset, is_write=True
        )

    async def delete(self, cluster: str, group_id: str) -> None:
        fields = {"groups_names": (group_id,)}
        await self.of_coordinator(
            cluster, group_id, ApiKey.DELETE_GROUPS, fields, check_deleted, is_write=True
        )

    async def delete_records(self, cluster: str, place: Place, before_offset: int) -> None:
        view = self.view_of(cluster)
        silence = f"the leader did not answer within {QUESTION_MS_MAX / 1000:g} s"
        leaders = by_leader(view, [place])
        if not leaders:
            raise GroupsUnavailable("it has no leader")
        lost: Exception = GroupsUnavailable(silence)
        async with self.way(view) as way:
            lost = OutcomeUnknown(silence)
            try:
                node = leaders[0][0]
                answer = await way.ask(node, ApiKey.DELETE_RECORDS, deletion(place, before_offset))
                return check_records_deleted(node, answer)
            except NodeLost as error:
                lost = OutcomeUnknown(f"{error}") if error.may_have_heard else GroupsUnavailable(f"{error}")
        raise lost
