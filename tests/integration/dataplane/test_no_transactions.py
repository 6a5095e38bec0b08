"""A client that asks for transactions where there are none learns so at once, whichever client it is: at a
level without them, and where no coordinator was ever admitted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka
import pytest
import trio
from aiokafka.errors import KafkaError as AioKafkaError
from kafka.errors import KafkaError as KafkaPythonError

from springtide.levels import NEWEST, TRANSACTIONS, Level
from springtide.node.handlers.find_coordinator import NO_TRANSACTIONS, NOT_ADMITTED
from tests.kit.dataplane.cluster_in_process import cluster_in_process

AT_ONCE_S = 20
"""Clients that would ask without end are given this long; one that stops needs a second."""


def librdkafka(bootstrap: str) -> str:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "t", "log_level": 0}
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        confluent_kafka.Producer(settings).init_transactions(AT_ONCE_S)
    assert caught.value.args[0].fatal()
    return str(caught.value)


def kafka_python(bootstrap: str) -> str:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap, transactional_id="t", max_block_ms=AT_ONCE_S * 1000
    )
    try:
        with pytest.raises(KafkaPythonError) as caught:
            producer.init_transactions()
        return str(caught.value)
    finally:
        producer.close(timeout=1)


def aiokafka_client(bootstrap: str) -> str:
    async def begin() -> str:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="t")
        try:
            with pytest.raises(AioKafkaError) as caught:
                await asyncio.wait_for(producer.start(), AT_ONCE_S)
            return str(caught.value)
        finally:
            await producer.stop()

    return asyncio.run(begin())


UNNAMED = "UnsupportedVersionError"
"""All that a client which does not show our reason has to say."""


@pytest.mark.parametrize(
    ("level", "reason"),
    [(Level(TRANSACTIONS.since - 1), NO_TRANSACTIONS), (NEWEST, NOT_ADMITTED)],
    ids=["level 1", "no coordinator"],
)
@pytest.mark.parametrize(
    ("begin", "told"), [(librdkafka, None), (kafka_python, UNNAMED), (aiokafka_client, UNNAMED)]
)
def test_a_transactional_producer_is_told_at_once_that_there_are_no_transactions(
    tmp_path: Path, begin: Callable[[str], str], told: str | None, level: Level, reason: str
) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path, level=level) as cluster:
            await cluster.form(1)
            before = time.monotonic()
            assert (told or reason) in await trio.to_thread.run_sync(begin, cluster.bootstrap())
            assert time.monotonic() - before < AT_ONCE_S / 2

    trio.run(run)
