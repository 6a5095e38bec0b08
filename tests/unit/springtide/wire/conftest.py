"""Random messages, and both ways of reading, as fixtures."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from springtide.native.record_walk import NATIVE_VARIABLE, OFF, choose_implementation, use
from tests.kit.springtide import random_message as kit
from tests.kit.springtide.native_build import CHOSEN, needs_native


@pytest.fixture(scope="session")
def random_message() -> Callable[[type[Any], random.Random], Any]:
    """Make an instance of a kio class with the given generator."""
    return kit.random_message


@pytest.fixture(scope="module", params=["python", pytest.param("native", marks=needs_native)])
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a module's tests by Python alone, and with the native part."""
    python = choose_implementation({NATIVE_VARIABLE: OFF})
    use(CHOSEN if request.param == "native" else python)
    yield
    use(python)
