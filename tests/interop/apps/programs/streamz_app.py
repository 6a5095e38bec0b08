"""streamz: a stream from its Kafka source to its Kafka sink."""

import asyncio
import os

from streamz import Stream

ADDRESS = {"bootstrap.servers": os.environ["BOOTSTRAP"]}


async def main():
    lines = Stream.from_kafka(
        [os.environ["SOURCE"]], {**ADDRESS, "group.id": os.environ["GROUP"]}, asynchronous=True
    )
    lines.map(lambda line: line.upper()).to_kafka(os.environ["TARGET"], ADDRESS)
    lines.start()
    await asyncio.Event().wait()


asyncio.run(main())
