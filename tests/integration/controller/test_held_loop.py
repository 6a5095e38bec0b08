"""A controller whose loop is held: its authority goes on, for it rests on threads alone."""

from __future__ import annotations

import os
import time

import anyio
import pytest

from controller.shell.clock import Ids, SystemClock
from controller.shell.leadership import ACTIVE_PATH, Leadership, Term
from controller.shell.listeners import TcpListeners
from controller.shell.meta import Delete
from tests.integration.controller.conftest import OpenMeta

pytestmark = pytest.mark.anyio

SESSION_TIMEOUT_MS = 2_000


def hold_the_loop(seconds: float) -> None:
    """Works in Python, as a long step does: the lock of the interpreter changes hands only when asked for."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


async def test_authority_outlasts_a_held_loop_and_ends_with_the_claim(open_meta: OpenMeta) -> None:
    clock = SystemClock()
    async with open_meta(session_timeout_ms=SESSION_TIMEOUT_MS) as meta, open_meta() as other:
        terms: list[Term] = []
        began = anyio.Event()

        async def serve(term: Term) -> None:
            terms.append(term)
            began.set()
            await anyio.sleep_forever()

        leadership = Leadership(
            meta=meta,
            clock=clock,
            ids=Ids(os.urandom),
            listeners=TcpListeners(clock),
            controller_id="c1",
            url="http://127.0.0.1:1",
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leadership.run, serve)
            with anyio.fail_after(20):
                await began.wait()
            (term,) = terms
            first_proof_ms = term._proof_sent_ms
            with anyio.fail_after(20):
                while term._proof_sent_ms == first_proof_ms:  # noqa: ASYNC110 - until its thread works
                    await anyio.sleep(0.01)
            hold_the_loop(2 * SESSION_TIMEOUT_MS / 1000)
            assert term.has_authority
            await other.start_write([Delete(ACTIVE_PATH, 0)]).outcome()
            with anyio.fail_after(20):
                await term.ended()
            assert term.end_reason == "the claim is gone"
            tasks.cancel_scope.cancel()
