"""A worker registers as a broker of its own, and says whose worker it is."""

from __future__ import annotations

from pathlib import Path

import httpx
import msgspec
import pytest
import trio

from dataplane.__main__ import _parser, _settings, open_broker
from dataplane.broker import Ports
from dataplane.core.workers import worker_directory
from springtide.contract.session import RegisterRequest


class Controller(httpx.AsyncBaseTransport):
    """Keeps the first registration, and answers nothing."""

    def __init__(self) -> None:
        self.path = ""
        self.asked: RegisterRequest | None = None
        self.has_asked = trio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.path = request.url.path
        self.asked = msgspec.json.decode(await request.aread(), type=RegisterRequest)
        self.has_asked.set()
        await trio.sleep_forever()
        raise AssertionError("cancelled before")


async def registration(directory: Path, *flags: str) -> tuple[str, RegisterRequest]:
    """Return the path and the body of the first registration of a process with these flags."""
    serve = ("serve", "--cluster", "prod", "--broker-id", "5", "--controllers", "http://c1:1")
    arguments = _parser().parse_args(
        [*serve, "--listen", "127.0.0.1:0", "--data-dir", str(directory), *flags]
    )
    controller = Controller()
    opened = open_broker(
        _settings(arguments),
        Ports(controller_transport=controller),
        data_dir=worker_directory(str(directory), arguments.worker or 0),
        boot_id="boot",
    )
    broker = await opened.listen()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.run)
            await controller.has_asked.wait()
            nursery.cancel_scope.cancel()
    opened.log_dir.abandon()
    assert controller.asked is not None
    return controller.path, controller.asked


@pytest.mark.parametrize(
    ("flags", "node_id", "worker_of"),
    [
        ((), 5, None),
        (("--workers", "2", "--worker", "0"), 5, 5),
        (("--workers", "2", "--worker", "1"), 1_000_005, 5),
    ],
)
def test_each_process_registers_under_its_id_and_a_worker_names_its_broker(
    flags: tuple[str, ...], node_id: int, worker_of: int | None, tmp_path: Path
) -> None:
    path, asked = trio.run(lambda: registration(tmp_path, *flags))
    assert (asked.broker_id, asked.worker_of) == (node_id, worker_of)
    assert path == f"/internal/clusters/prod/brokers/{node_id}:register"
