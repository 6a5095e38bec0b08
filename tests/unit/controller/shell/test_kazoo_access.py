"""How a controller gets into ZooKeeper: identities as text, ACLs, and answers that share a TLS record."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from controller.shell.kazoo_access import (
    IdentitiesInvalid,
    TlsThreads,
    ZooKeeperAccess,
    ZooKeeperTls,
    is_open,
    parse_identities,
)
from tests.kit.springtide.certificates import PrivateCa

PASSWORD = "0123456789abcdefghij"


def test_identities_are_lines_of_a_name_and_a_password() -> None:
    text = f"# ours\nspringtide:{PASSWORD}\n\n newer:{PASSWORD}:x \n"
    assert parse_identities(text) == (f"springtide:{PASSWORD}", f"newer:{PASSWORD}:x")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "there are 0 identities; it takes 1 to 8"),
        ("# nothing", "there are 0 identities"),
        ("\n".join(f"n{number}:{PASSWORD}" for number in range(9)), "there are 9 identities"),
        (f"a:{PASSWORD}\nb:short", "line 2 is not NAME:PASSWORD"),
        (f"{PASSWORD}", "line 1 is not NAME:PASSWORD"),
        (f"a:{PASSWORD} b", "line 1 is not NAME:PASSWORD"),
    ],
)
def test_an_identity_that_can_be_guessed_or_read_two_ways_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(IdentitiesInvalid, match=complaint) as raised:
        parse_identities(text)
    assert "short" not in str(raised.value) and PASSWORD not in str(raised.value)


def test_each_identity_may_do_everything_and_no_password_is_shown() -> None:
    access = ZooKeeperAccess(identities=(f"a:{PASSWORD}", f"b:{PASSWORD}"))
    assert [(entry.perms, entry.id.scheme, entry.id.id.partition(":")[0]) for entry in access.acl] == [
        (31, "digest", "a"),
        (31, "digest", "b"),
    ]
    assert not is_open(access.acl) and is_open(ZooKeeperAccess().acl)
    assert PASSWORD not in repr(access) + repr(access.acl)


def test_an_answer_in_the_tls_record_of_the_one_before_is_read_at_once(tmp_path: Path) -> None:
    ca = PrivateCa(tmp_path)
    pair = ca.issue("zookeeper")
    threads = TlsThreads(ZooKeeperTls(ca.file))
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pair.cert, pair.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connected, _ = listener.accept()
            with serving.wrap_socket(connected, server_side=True) as secured:
                secured.sendall(b"onetwo")  # One record.
                secured.recv(1)

        server = threads.spawn(serve)
        address = listener.getsockname()
        with threads.create_connection(address=address, hostname="127.0.0.1", timeout=20) as connected:
            assert threads.select([connected], [], [], 20) == ([connected], [], [])
            assert connected.recv(3) == b"one"
            assert threads.select([connected], [], [], 0) == ([connected], [], [])
            assert connected.recv(3) == b"two"
            assert threads.select([connected], [], [], 0) == ([], [], [])
        server.join()
