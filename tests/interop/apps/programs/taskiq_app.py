"""taskiq over its Kafka broker: tasks are sent, and a receiver of this process prints their argument."""

import asyncio
import os

from taskiq.api import run_receiver_task
from taskiq_aio_kafka import AioKafkaBroker

broker = AioKafkaBroker(os.environ["BOOTSTRAP"])


@broker.task
async def tell(line):
    print(line, flush=True)


async def main():
    await broker.startup()
    receiver = asyncio.create_task(run_receiver_task(broker, run_startup=False))
    await asyncio.sleep(8)
    for number in range(20):
        await tell.kiq(f"line {number}")
    await receiver


asyncio.run(main())
