"""sentry-arroyo: a stream processor whose strategy produces."""

import os
import signal

from arroyo.backends.kafka import KafkaConsumer, KafkaPayload, KafkaProducer
from arroyo.backends.kafka.configuration import build_kafka_configuration, build_kafka_consumer_configuration
from arroyo.processing import StreamProcessor
from arroyo.processing.strategies import CommitOffsets, Produce, RunTask
from arroyo.processing.strategies.abstract import ProcessingStrategyFactory
from arroyo.types import Topic

ADDRESS = {"bootstrap.servers": os.environ["BOOTSTRAP"]}


def shout(message):
    payload = message.payload
    return KafkaPayload(payload.key, payload.value.upper(), payload.headers)


class Factory(ProcessingStrategyFactory):
    def create_with_partitions(self, commit, partitions):
        producer = KafkaProducer(build_kafka_configuration(ADDRESS))
        return RunTask(shout, Produce(producer, Topic(os.environ["TARGET"]), CommitOffsets(commit)))


settings = build_kafka_consumer_configuration(
    ADDRESS, group_id=os.environ["GROUP"], auto_offset_reset="earliest"
)
processor = StreamProcessor(KafkaConsumer(settings), Topic(os.environ["SOURCE"]), Factory())
signal.signal(signal.SIGTERM, lambda number, frame: processor.signal_shutdown())
processor.run()
