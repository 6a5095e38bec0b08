"""The order in which a broker stops. Pure.

It ends with the marker of a clean stop, by which the next process vouches for every record (3.8, how a broker
returns). So whatever could still write, or promise something, has ended before the logs are closed.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class ShutdownStep(Enum):
    """LEAVE: wait until the controller has taken every leadership and all brokers know it, or the time is
    over; nothing to wait for without a registration. STOP_FETCHING: append no more. REFUSE_CLIENTS: refuse
    new connections, which proves the end to a controller that probes, and end the others. END_SESSION: tell
    the controller nothing more and apply nothing: a state for a closed log would fail, and pass for a broken
    disk. STOP_WORK: flush, make, scrub and compact no log any more. CLOSE_LOGS: flush all, store the high
    watermarks, then the marker."""

    LEAVE = auto()
    STOP_FETCHING = auto()
    REFUSE_CLIENTS = auto()
    END_SESSION = auto()
    STOP_WORK = auto()
    CLOSE_LOGS = auto()


SHUTDOWN: Final = (
    ShutdownStep.LEAVE,
    ShutdownStep.STOP_FETCHING,
    ShutdownStep.REFUSE_CLIENTS,
    ShutdownStep.END_SESSION,
    ShutdownStep.STOP_WORK,
    ShutdownStep.CLOSE_LOGS,
)
