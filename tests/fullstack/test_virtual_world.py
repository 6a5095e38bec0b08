"""The simulated machine below whole processes: time, the guard, the network."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable

import pytest
import trio

from tests.fullstack.clock import Stuck, VirtualClock, run_virtually, scheduler_random
from tests.fullstack.guard import Forbidden, guarded
from tests.fullstack.http import receive_some, send_all
from tests.fullstack.net import PIPE_BYTES_MAX, RETRY_MS_MAX, Network
from tests.fullstack.process_life import Life
from tests.fullstack.sockets import SimChannel, SimNet
from tests.fullstack.world import World

PORT = 9092


def run(story: Callable[[World], Awaitable[None]], seed: int = 1) -> World:
    worlds: list[World] = []

    async def main(clock: VirtualClock) -> None:
        worlds.append(World(seed, clock))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clock.watch_timers)
            await story(worlds[0])
            nursery.cancel_scope.cancel()

    run_virtually(seed, main)
    return worlds[0]


class Pair:
    """Two machines, a listener on the second."""

    def __init__(self, world: World) -> None:
        self.network = Network(world)
        self.one, self.other = self.network.add("one"), self.network.add("other")
        self.lives = Life(world, "one", 1), Life(world, "other", 1)
        self.nets = (
            SimNet(self.network, self.lives[0], self.one),
            SimNet(self.network, self.lives[1], self.other),
        )

    async def connect(self) -> tuple[SimChannel, SimChannel]:
        listener = await self.nets[1].listen("", PORT)
        listener.begin()
        client = await self.nets[0].connect(self.other.address, PORT)
        return client, await listener.accept()


async def receive_exactly(channel: SimChannel, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = await receive_some(channel)
        assert more, "the connection ended"
        data += more
    return data


def test_an_hour_takes_no_time() -> None:
    async def story(world: World) -> None:
        await trio.sleep(3_600)
        assert world.now_ms == 3_600_000

    began = time.monotonic()
    run(story)
    assert time.monotonic() - began < 10


def test_trio_still_lets_us_seed_its_scheduler() -> None:
    assert scheduler_random().random() < 1
    orders = []

    async def story(_world: World) -> None:
        order: list[int] = []

        async def task(number: int) -> None:
            for _ in range(5):
                await trio.lowlevel.checkpoint()
                order.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(task, number)
        orders.append(order)

    for seed in (1, 1, 2):
        run(story, seed)
    assert orders[0] == orders[1] != orders[2]


def test_a_run_that_waits_for_nothing_ends() -> None:
    async def main(_clock: VirtualClock) -> None:
        await trio.sleep_forever()

    with pytest.raises(Stuck):
        run_virtually(1, main)


def test_timers_are_called_in_the_order_of_time_and_of_asking() -> None:
    called: list[tuple[str, int]] = []

    async def story(world: World) -> None:
        def call(name: str) -> Callable[[], None]:
            return lambda: called.append((name, world.now_ms))

        world.after_ms(20, call("late"))
        world.after_ms(10, call("first"))
        world.after_ms(10, call("second"))
        world.after_ms(10, call("cancelled")).cancel()
        world.at_ns(-5, call("long due"))
        await world.clock.sleep_until_ns(15_000_000)
        called.append(("awake", world.now_ms))
        await trio.sleep(1)

    run(story)
    assert called == [("long due", 0), ("first", 10), ("second", 10), ("awake", 15), ("late", 20)]


def test_a_sleep_can_be_cancelled() -> None:
    async def story(world: World) -> None:
        with trio.move_on_after(1) as scope:
            await world.clock.sleep_until_ns(5_000_000_000)
        assert scope.cancelled_caught
        await trio.sleep(10)  # its timer wakes nobody

    run(story)


def test_a_timer_that_raises_ends_the_run() -> None:
    async def story(world: World) -> None:
        def call() -> None:
            raise ArithmeticError("of the harness")

        world.after_ms(1, call)
        await trio.sleep(1)
        raise AssertionError("it went on")

    with pytest.RaisesGroup(ArithmeticError):
        run(story)


def test_the_real_world_is_out_of_reach_of_the_product() -> None:
    product: dict[str, object] = {"__name__": "dataplane.somewhere", "time": time}
    with guarded(1):
        with pytest.raises(Forbidden):
            eval("time.time()", product)
        with pytest.raises(Forbidden):
            threading.Thread(target=print).start()
        assert time.time() > 0, "whoever tests may look"
    assert eval("time.time()", product)


def test_bytes_arrive_in_order_however_they_are_cut() -> None:
    async def story(world: World) -> None:
        client, server = await Pair(world).connect()
        sent = bytes(range(256)) * 1_000
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_all, client, sent)
            assert await receive_exactly(server, len(sent)) == sent

    run(story)


def test_a_cut_parks_what_is_sent_until_the_buffer_is_full_and_mending_delivers_it() -> None:
    async def story(world: World) -> None:
        pair = Pair(world)
        client, server = await pair.connect()
        pair.network.cut("one", "other")
        sent = 0
        with pytest.raises(BlockingIOError):
            while True:
                sent += client.send([bytes(1_000)])
        assert sent == PIPE_BYTES_MAX
        await trio.sleep(1)
        with pytest.raises(BlockingIOError):
            server.recv_into(memoryview(bytearray(1)))
        await send_all(server, b"the other way is open")
        assert await receive_exactly(client, 21) == b"the other way is open"
        pair.network.mend("one", "other")
        assert await receive_exactly(server, sent) == bytes(sent)
        await client.wait_writable()

    run(story)


def test_a_cut_that_outlasts_the_kernels_patience_resets() -> None:
    async def story(world: World) -> None:
        pair = Pair(world)
        client, server = await pair.connect()
        pair.network.cut("one", "other")
        await send_all(client, b"lost")
        await trio.sleep(RETRY_MS_MAX / 1000 + 1)
        pair.network.mend("one", "other")
        for channel in (client, server):
            with pytest.raises(ConnectionResetError):
                await receive_some(channel)

    run(story)


def test_a_closed_end_is_noticed_after_what_it_sent() -> None:
    async def story(world: World) -> None:
        client, server = await Pair(world).connect()
        await send_all(client, b"goodbye")
        client.close()
        assert await receive_exactly(server, 7) == b"goodbye"
        assert await receive_some(server) == b""

    run(story)


def test_a_port_without_a_listener_refuses_and_a_dead_machine_is_silent() -> None:
    async def story(world: World) -> None:
        pair = Pair(world)
        with pytest.raises(ConnectionRefusedError):
            await pair.nets[0].connect(pair.other.address, PORT)
        client, _ = await pair.connect()
        pair.lives[1].die()
        pair.network.power_off(pair.other)
        with trio.move_on_after(60) as scope:
            await pair.nets[0].connect(pair.other.address, PORT)
        assert scope.cancelled_caught
        await send_all(client, b"nobody hears")
        with trio.move_on_after(60) as scope:
            await client.wait_readable()
        assert scope.cancelled_caught, "half open"
        pair.other.is_on = True
        await send_all(client, b"now somebody answers")
        with pytest.raises(ConnectionResetError):
            await receive_some(client)

    run(story)


def test_a_dead_life_reaches_nobody() -> None:
    async def story(world: World) -> None:
        pair = Pair(world)
        client, _ = await pair.connect()
        pair.lives[0].die()
        with pytest.raises(OSError, match="earlier life"):
            client.send([b"a ghost"])
        with pytest.raises(OSError):
            await pair.nets[0].connect(pair.other.address, PORT)

    run(story)


def test_a_paused_process_neither_hears_nor_times_out() -> None:
    async def story(world: World) -> None:
        pair = Pair(world)
        client, server = await pair.connect()
        life = pair.lives[1]
        heard_ms: list[int] = []
        timed_out_ms: list[int] = []

        async def hear() -> None:
            await receive_exactly(server, 5)
            heard_ms.append(world.now_ms)

        async def time_out() -> None:
            with life.clock.timeout_ms(1_000):
                await trio.sleep_forever()
            timed_out_ms.append(world.now_ms)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(hear)
            nursery.start_soon(time_out)
            await trio.sleep(0.1)
            life.pause()
            await send_all(client, b"hello")
            await trio.sleep(5)
            assert not heard_ms
            assert not timed_out_ms
            life.resume()
        assert heard_ms[0] >= 5_000
        assert timed_out_ms[0] >= 5_000

    run(story)
