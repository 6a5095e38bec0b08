"""What kazoo logs at DEBUG, through the module that gives it its logger, has no znode's data."""

from __future__ import annotations

import logging

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.serialization import SetData, Transaction
from kazoo.protocol.states import ZnodeStat

from controller.shell.kazoo_meta import KazooMeta
from controller.shell.security_rows import encode_security
from tests.kit.controller.security import SHA_256, has_secrets, user_record


def test_requests_and_answers_are_logged_without_bytes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("DEBUG")
    given: list[logging.Logger] = []
    begin = KazooClient.__init__

    def remember(client: KazooClient, *arguments: object, **options: object) -> None:
        begin(client, *arguments, **options)
        given.append(client.logger)

    monkeypatch.setattr(KazooClient, "__init__", remember)
    KazooMeta(hosts="127.0.0.1:1", root="/s", session_timeout_ms=1_000)
    (logger,) = given
    row = encode_security(user_record("alice", SHA_256), 1)
    assert has_secrets(row.decode())
    stat = ZnodeStat(*range(11))
    logger.debug("Sending request(xid=%s): %s", 1, Transaction([SetData("/s/alice", row, 3)]))
    logger.debug("Received response(xid=%s): %r", 1, (row, stat))
    logger.debug("Received error(xid=%s) %r", 2, ValueError("gone"))
    logger.debug("no arguments")
    assert [record.getMessage() for record in caplog.records][-4:] == [
        "Sending request(xid=1): Transaction(operations=[SetData(path='/s/alice', "
        f"data='{len(row)} bytes', version=3)])",
        f"Received response(xid=1): ['{len(row)} bytes', {stat!r}]",
        "Received error(xid=2) ValueError('gone')",
        "no arguments",
    ]
