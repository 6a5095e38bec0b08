"""Random messages, as a fixture."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.kit.springtide import random_message as kit


@pytest.fixture(scope="session")
def random_message() -> Callable[[type[Any], random.Random], Any]:
    """Make an instance of a kio class with the given generator."""
    return kit.random_message
