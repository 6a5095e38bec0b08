"""A coordinator that says over HTTP what coordinators say to the controller."""

from __future__ import annotations

from typing import Any

import msgspec

from springtide.contract.epochs import BrokerEpoch
from springtide.contract.groups import GroupNews
from springtide.contract.session import (
    HeartbeatRequest,
    HeartbeatResponse,
    LevelShards,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
)
from springtide.contract.transactions import TransactionNews
from springtide.contract.updates import NameWriterRequest, NameWriterResponse, PollRequest, UpdateBatch
from springtide.levels import SUPPORTED
from tests.kit.admin_api.rest import Rest


class Coordinator:
    """A coordinator, as far as the controller sees it."""

    def __init__(
        self,
        rest: Rest,
        coordinator_id: int,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        rack: str | None = None,
    ) -> None:
        self.rest = rest
        self.coordinator_id = coordinator_id
        self.host = host
        self.port = 9000 + coordinator_id if port is None else port
        self.rack = rack
        self.epoch = -1
        self.update = UpdateBatch()

    async def ask(self, verb: str, body: Any, kind: type[Any]) -> Any:
        path = f"/internal/clusters/prod/coordinators/{self.coordinator_id}:{verb}"
        answer = await self.rest.client.post(path, content=msgspec.json.encode(body))
        assert answer.status_code == 200, answer.text
        return msgspec.json.decode(answer.content, type=kind)

    async def register(self) -> RegisterResponse:
        request = RegisterRequest(
            broker_id=self.coordinator_id,
            incarnation_id=f"i{self.coordinator_id}",
            host=self.host,
            port=self.port,
            rack=self.rack,
            log_dir_ids=(),
            last_shutdown=ShutdownKind.FIRST_START,
            levels=SUPPORTED,
        )
        response: RegisterResponse = await self.ask("register", request, RegisterResponse)
        self.epoch = response.broker_epoch
        return response

    async def poll(self) -> UpdateBatch:
        request = PollRequest(
            broker_id=self.coordinator_id,
            broker_epoch=BrokerEpoch(self.epoch),
            applied_controller_epoch=self.update.controller_epoch,
            applied_sequence=self.update.sequence,
            wait_ms_max=0,
        )
        self.update = await self.ask("poll", request, UpdateBatch)
        return self.update

    async def heartbeat(
        self,
        *level: int,
        groups: GroupNews | None = None,
        transactions: TransactionNews | None = None,
        wants_transactions: bool = False,
    ) -> HeartbeatResponse:
        """level: numbers of shards that it is level with, of each coordinator topic."""
        topic_ids = sorted({key[0] for key in self.rest.engine.cluster("prod").image.shards})
        request = HeartbeatRequest(
            broker_id=self.coordinator_id,
            broker_epoch=BrokerEpoch(self.epoch),
            incarnation_id=f"i{self.coordinator_id}",
            applied_controller_epoch=self.update.controller_epoch,
            applied_sequence=self.update.sequence,
            level=tuple(LevelShards(topic_id=topic_id, partitions=level) for topic_id in topic_ids),
            groups=groups,
            transactions=transactions,
            wants_transactions=wants_transactions,
        )
        response: HeartbeatResponse = await self.ask("heartbeat", request, HeartbeatResponse)
        return response

    async def name_writer(self, topic_id: str, partition: int) -> NameWriterResponse:
        request = NameWriterRequest(
            broker_id=self.coordinator_id,
            broker_epoch=BrokerEpoch(self.epoch),
            topic_id=topic_id,
            partition=partition,
        )
        response: NameWriterResponse = await self.ask("name-writer", request, NameWriterResponse)
        return response
