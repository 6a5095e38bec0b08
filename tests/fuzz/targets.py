"""All targets by name."""

from __future__ import annotations

from typing import Final

from tests.fuzz.contract import CONTRACT
from tests.fuzz.logins import CERTIFICATE, LOGIN, TOKEN
from tests.fuzz.target import Target
from tests.fuzz.wire import BATCH, REQUEST

TARGETS: Final[dict[str, Target]] = {
    "request": REQUEST,
    "batch": BATCH,
    "login": LOGIN,
    "token": TOKEN,
    "certificate": CERTIFICATE,
    "contract": CONTRACT,
}
