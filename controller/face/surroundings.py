"""What a process gives to its parts: time, ids, figures, the endpoints of brokers and coordinators, and
whether the members of a cluster speak TLS to each other."""

from __future__ import annotations

from controller.shell.broker_api import (
    BODY_TIMEOUT_MS,
    COORDINATORS_TAG,
    TAG,
    BodyRefused,
    add_endpoint,
    create_routers,
    read_body,
    refused_body,
)
from controller.shell.clock import ControllerClock, Ids, RandomBytes
from controller.shell.kafka_questions import speaks_tls
from controller.shell.metrics import EngineCollector
