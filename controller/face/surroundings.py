"""What a process gives to its parts: time, ids, and how a body of a broker is read."""

from __future__ import annotations

from controller.shell.broker_api import (
    BODY_TIMEOUT_MS,
    COORDINATORS_TAG,
    TAG,
    BodyRefused,
    add_endpoint,
    read_body,
    refused_body,
)
from controller.shell.clock import ControllerClock, Ids, RandomBytes
