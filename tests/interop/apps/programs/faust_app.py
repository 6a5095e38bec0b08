"""Faust: an agent that writes capitals."""

import os

import faust

guarantee = os.environ.get("GUARANTEE", "at_least_once")
broker = f"kafka://{os.environ['BOOTSTRAP'].replace(',', ';')}"
app = faust.App(os.environ["GROUP"], broker=broker, processing_guarantee=guarantee)
source = app.topic(os.environ["SOURCE"], value_type=str, value_serializer="raw")
target = app.topic(os.environ["TARGET"], value_serializer="raw")


@app.agent(source)
async def shout(lines):
    async for line in lines:
        await target.send(value=line.decode().upper().encode() if isinstance(line, bytes) else line.upper())


if guarantee == "exactly_once":
    # Faust writes in a transaction to topics that it reads, too; to others, and to those that were not there
    # when it began to read, outside of it.
    @app.agent(target)
    async def ignore(lines):
        async for _ in lines:
            pass


if __name__ == "__main__":
    app.main()
