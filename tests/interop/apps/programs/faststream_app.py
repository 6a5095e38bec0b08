"""FastStream: a subscriber that is a publisher too. Its argument: aiokafka or confluent."""

import asyncio
import os
import sys

from faststream import FastStream

if sys.argv[1] == "aiokafka":
    from faststream.kafka import KafkaBroker
else:
    from faststream.confluent import KafkaBroker

broker = KafkaBroker(
    os.environ["BOOTSTRAP"].split(",") if sys.argv[1] == "aiokafka" else os.environ["BOOTSTRAP"]
)


@broker.subscriber(os.environ["SOURCE"], group_id=os.environ["GROUP"])
@broker.publisher(os.environ["TARGET"])
async def shout(line: str) -> str:
    return line.upper()


asyncio.run(FastStream(broker).run())
