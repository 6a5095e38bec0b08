"""The process: a question on its standard input, the answer on its standard output, and the end.

The first line of the answer is the summary, and what follows is the JSON for the asker. Where the process
ends otherwise, killed or out of memory, there is no answer.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time

import msgspec

from admin_api.records.room.brokers import Brokers
from admin_api.records.room.questions import ADDRESS_SPACE_BYTES_MAX, PROCESSOR_S_MAX, RecordLook
from admin_api.records.room.reading import Reading
from springtide.tls import KafkaTls

#: Beside a controller that has an election to run, a look can wait.
NICE = 10


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the controller
    os.nice(NICE)
    for limit, most in (
        (resource.RLIMIT_AS, ADDRESS_SPACE_BYTES_MAX),
        (resource.RLIMIT_CPU, PROCESSOR_S_MAX),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    look, tls = msgspec.json.decode(sys.stdin.buffer.read(), type=tuple[RecordLook, KafkaTls | None])
    until_ms = _now_ms() + look.ms_max
    brokers = Brokers(look, tls, left_s=lambda: (until_ms - _now_ms()) / 1_000)
    summary, body = Reading(look, brokers, now_ms=_now_ms).run()
    sys.stdout.buffer.write(msgspec.json.encode(summary) + b"\n" + body)
    sys.stdout.buffer.flush()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


if __name__ == "__main__":
    main()
