"""A controller's address before it serves: taken, and closed."""

from __future__ import annotations

import socket

import pytest

from admin_api.__main__ import _bind
from controller.config import ConfigError, load_config


def test_nobody_gets_in_before_it_serves_and_nobody_else_gets_the_address() -> None:
    with _bind(load_config({"listen": "127.0.0.1:0"}, {})) as bound:
        address = bound.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=5).close()
        bound.listen()
        socket.create_connection(address, timeout=5).close()
        with pytest.raises(ConfigError, match="choose another with --listen"):
            _bind(load_config({"listen": f"127.0.0.1:{address[1]}"}, {}))
