"""Faust: an agent that writes capitals."""

import os

import faust

app = faust.App(os.environ["GROUP"], broker=f"kafka://{os.environ['BOOTSTRAP'].replace(',', ';')}")
source = app.topic(os.environ["SOURCE"], value_type=str, value_serializer="raw")
target = app.topic(os.environ["TARGET"], value_serializer="raw")


@app.agent(source)
async def shout(lines):
    async for line in lines:
        await target.send(value=line.decode().upper().encode() if isinstance(line, bytes) else line.upper())


if __name__ == "__main__":
    app.main()
