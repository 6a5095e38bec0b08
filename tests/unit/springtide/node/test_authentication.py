"""Who a client is before its first request: by its certificate, unless it logs in."""

from __future__ import annotations

import trio
import trio.testing
from cryptography import x509

from springtide.security.sasl.clients import PlainClient
from springtide.wire.errors import ErrorCode
from tests.kit.springtide.client_certificates import certificate
from tests.kit.springtide.sasl_desk import SaslDesk, sasl_desk
from tests.kit.springtide.users import users

RULES = "RULE:CN=(.*?),.*/$1/L"
ALICE = certificate([("O", "Example"), ("CN", "Alice")], x509.DNSName("Alice.example.com"))
NAMELESS = certificate([("O", "Example")])


def run(test: object) -> None:
    async def main() -> None:
        async with sasl_desk(users(bob="other"), ssl_principal_mapping_rules=RULES) as desk:
            await test(desk)  # type: ignore[operator]

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def names_of_connections(desk: SaslDesk) -> list[frozenset[str]]:
    return [connection.certificate_names for connection in desk.server._connections]


def test_a_certificate_makes_the_principal_and_tells_names_of_hosts() -> None:
    async def test(desk: SaslDesk) -> None:
        assert await desk.connect("INTERNAL", certificate=ALICE).use() == "User:alice"
        assert await desk.connect("INTERNAL").use() == "User:ANONYMOUS"
        assert names_of_connections(desk) == [frozenset({"alice.example.com"}), frozenset()]

    run(test)


def test_a_certificate_that_makes_no_name_ends_the_connection() -> None:
    async def test(desk: SaslDesk) -> None:
        client = desk.connect("INTERNAL", certificate=NAMELESS)
        assert await client.use() is None and client.is_closed
        assert desk.server.counters.connections_closed_malformed == 1

    run(test)


def test_where_clients_log_in_their_certificates_make_no_principal() -> None:
    async def test(desk: SaslDesk) -> None:
        for shown in (ALICE, NAMELESS):
            client = desk.connect("CLIENTS", certificate=shown)
            assert await client.log_in(PlainClient("bob", "other"), "PLAIN") is ErrorCode.NONE
            assert await client.use() == "User:bob"
        assert names_of_connections(desk) == [frozenset({"alice.example.com"}), frozenset()]

    run(test)
