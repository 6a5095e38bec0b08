"""What a simulated process must not touch: the machine's clocks, randomness, threads, sockets and files.

A product that reads the wall clock past its port still passes a run, and replays differently. So while a run
lasts, such a call by code of the product raises; threads and sockets raise whoever asks; what libraries draw
of `os.urandom` (names of subqueries) comes from the seed. Log lines go into
the trace, where a line that differs between two runs is noticed.
"""

from __future__ import annotations

import builtins
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from tests.fullstack.world import World

PRODUCT = ("dataplane.", "controller.", "admin_api.")
LOGGERS = ("dataplane", "controller", "admin_api", "httpx", "httpcore")


class Forbidden(RuntimeError):
    """A simulated process reached for the real world."""


def _is_product(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(PRODUCT)


def _forbid_product(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(*arguments: Any, **named: Any) -> Any:
        if _is_product(sys._getframe(1)):
            raise Forbidden(f"{name} outside its port")
        return real(*arguments, **named)

    return guarded


def _forbid(name: str) -> Callable[..., Any]:
    def guarded(*_arguments: Any, **_named: Any) -> Any:
        raise Forbidden(f"{name} in a simulation")

    return guarded


def _seeded(random: Random) -> Callable[[int], bytes]:
    def urandom(count: int, /) -> bytes:
        if _is_product(sys._getframe(1)):
            raise Forbidden("urandom outside its port")
        return random.randbytes(count)

    return urandom


@contextmanager
def guarded(seed: int) -> Iterator[None]:
    """The real world is out of reach within."""
    product: tuple[tuple[Any, str], ...] = (
        (time, "time"),
        (time, "time_ns"),
        (time, "monotonic"),
        (time, "monotonic_ns"),
        (time, "clock_gettime_ns"),
        (time, "perf_counter"),
        (builtins, "open"),
        (os, "open"),
    )
    everybody: tuple[tuple[Any, str], ...] = (
        (threading.Thread, "start"),
        (socket.socket, "connect"),
        (socket.socket, "bind"),
        (time, "sleep"),
    )
    kept = [(owner, name, getattr(owner, name)) for owner, name in (*product, *everybody, (os, "urandom"))]
    try:
        setattr(os, "urandom", _seeded(Random(f"urandom {seed}")))  # noqa: B010 - so are the others
        for owner, name in product:
            setattr(owner, name, _forbid_product(name, getattr(owner, name)))
        for owner, name in everybody:
            setattr(owner, name, _forbid(name))
        yield
    finally:
        for owner, name, real in kept:
            setattr(owner, name, real)


class _TraceHandler(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.note(f"{record.levelname.lower()} {record.name}: {record.getMessage()}")


@contextmanager
def logging_into(world: World) -> Iterator[None]:
    """The product's log lines are part of the trace, and nowhere else."""
    handler = _TraceHandler(world)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    kept = [(logger, logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if logger.name in PRODUCT_LOGGERS else logging.WARNING)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, level, propagate in kept:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


PRODUCT_LOGGERS = ("dataplane", "controller", "admin_api")
