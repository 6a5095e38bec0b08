"""One user, `alice`, whose password is `secret`, for the servers' sides of PLAIN and SCRAM."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from springtide.security.sasl.credentials import ScramMechanism, credential_from_password
from springtide.security.sasl.exchange import Mechanism
from springtide.security.sasl.scram import ScramServer

SCRAM: tuple[ScramMechanism, ...] = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)

MakeServer = Callable[[ScramMechanism], ScramServer]


@pytest.fixture(scope="session")
def scram_server() -> MakeServer:
    """Make a server that knows alice only. Its nonce is always the same."""
    known = {
        mechanism: {"alice": credential_from_password(mechanism, "secret", salt=b"salt", iterations=4096)}
        for mechanism in SCRAM
    }

    def make(mechanism: ScramMechanism) -> ScramServer:
        return ScramServer(
            mechanism, known[mechanism].get, server_nonce="server", fake_salt_key=b"key of the cluster"
        )

    return make


@pytest.fixture(params=SCRAM)
def mechanism(request: pytest.FixtureRequest) -> ScramMechanism:
    found: ScramMechanism = request.param
    return found
