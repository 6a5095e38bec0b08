"""What a broker's fetchers say to leaders, as frames."""

from __future__ import annotations

from collections.abc import Callable

from dataplane.core.fetch_session import FINAL_EPOCH, FollowerRequest
from dataplane.shell.config import BrokerConfig
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.partition_state import PartitionKey
from springtide.node.topic_ids import topic_id_bytes
from springtide.wire import fetch_request
from springtide.wire.apis import ApiKey
from springtide.wire.fetch_request import RequestTemplate
from springtide.wire.framing import encode_request_frame
from springtide.wire.headers import encode_request_header

HURRY_CORRELATION_ID = -1


class FetchEncoder:
    """`broker_epoch` tells the epoch of this broker's registration, which every request bears."""

    def __init__(
        self, *, broker_id: int, broker_epoch: Callable[[], BrokerEpoch], config: BrokerConfig
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self.client_id = f"broker-{broker_id}"
        self.wait_ms = config.number("replica.fetch.wait.max.ms")
        self.min_bytes = config.number("replica.fetch.min.bytes")
        self.response_bytes_max = config.number("replica.fetch.response.max.bytes")
        self._kept: dict[int, tuple[BrokerEpoch, RequestTemplate]] = {}

    def encode(
        self,
        request: FollowerRequest,
        *,
        correlation_id: int,
        api_version: int,
        mark_of: Callable[[PartitionKey], fetch_request.LogMark | None],
    ) -> bytes:
        """Return the frame of a session's request. api_version: one of REPLICA_FETCH_VERSIONS. mark_of: for
        partitions whose log is not proven yet."""
        if (
            len(request.partitions) == 1
            and not request.forgotten
            and not request.unproven
            and not request.partitions[0][1].wants_producers
        ):
            ((topic_id, partition), position) = request.partitions[0]
            return self._template(api_version).encode(
                correlation_id=correlation_id,
                session_id=request.session_id,
                session_epoch=request.session_epoch,
                topic_id=topic_id_bytes(topic_id),
                partition=partition,
                leader_epoch=position.leader_epoch,
                fetch_offset=position.fetch_offset,
                last_fetched_epoch=position.last_fetched_epoch,
                log_start_offset=position.log_start_offset,
                partition_bytes_max=position.max_bytes,
            )
        head = encode_request_header(
            api_key=ApiKey.FETCH,
            api_version=api_version,
            correlation_id=correlation_id,
            client_id=self.client_id,
        )
        body = fetch_request.encode_fetch_request(
            api_version,
            fetch_request.FetchRequest(
                replica_id=self._broker_id,
                broker_epoch=self._broker_epoch(),
                max_wait_ms=0 if request.has_more else self.wait_ms,
                min_bytes=self.min_bytes,
                max_bytes=self.response_bytes_max,
                session_id=request.session_id,
                session_epoch=request.session_epoch,
                partitions=[
                    fetch_request.FetchPartition(
                        topic_id_bytes(key[0]),
                        key[1],
                        position.leader_epoch,
                        position.fetch_offset,
                        position.last_fetched_epoch,
                        position.log_start_offset,
                        position.max_bytes,
                        mark_of(key) if key in request.unproven else None,
                        position.wants_producers,
                    )
                    for key, position in request.partitions
                ],
                forgotten=[(topic_id_bytes(key[0]), key[1]) for key in request.forgotten],
            ),
        )
        return encode_request_frame(head, body)

    def hurry(self, api_version: int) -> bytes:
        """Return a fetch of nothing, outside every session."""
        head = encode_request_header(
            api_key=ApiKey.FETCH,
            api_version=api_version,
            correlation_id=HURRY_CORRELATION_ID,
            client_id=self.client_id,
        )
        body = fetch_request.FetchRequest(
            replica_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=self.response_bytes_max,
            session_epoch=FINAL_EPOCH,
        )
        return encode_request_frame(head, fetch_request.encode_fetch_request(api_version, body))

    def _template(self, api_version: int) -> RequestTemplate:
        """Return the template of the usual request; it holds for as long as this broker keeps its epoch."""
        broker_epoch = self._broker_epoch()
        kept = self._kept.get(api_version)
        if kept is None or kept[0] != broker_epoch:
            kept = self._kept[api_version] = (
                broker_epoch,
                RequestTemplate(
                    client_id=self.client_id,
                    replica_id=self._broker_id,
                    broker_epoch=broker_epoch,
                    max_wait_ms=self.wait_ms,
                    min_bytes=self.min_bytes,
                    max_bytes=self.response_bytes_max,
                    api_version=api_version,
                ),
            )
        return kept[1]
