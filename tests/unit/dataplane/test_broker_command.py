"""What `dataplane serve` makes of its command line."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

import pytest

from dataplane.__main__ import _parser, _settings, open_broker
from dataplane.broker import BrokerSettings, Ports
from dataplane.shell.log_loading import load_logs
from dataplane.storage.disk import PosixDisk
from dataplane.storage.log_dir import open_log_dir
from dataplane.storage.log_settings import PartitionId
from springtide.contract.epochs import BrokerEpoch
from springtide.node.command_line import TOKEN_CHARS_MAX, CommandLineError, raise_open_files_limit
from tests.kit.secret_file import write_secret

SERVE = ("serve", "--cluster", "prod", "--broker-id", "1", "--controllers", "http://c1:1", "--data-dir", "d")


def settings(*flags: str) -> BrokerSettings:
    return _settings(_parser().parse_args([*SERVE, *flags]))


def test_the_controllers_token_is_read_from_a_file_and_never_shown(tmp_path: Path) -> None:
    assert settings().controller_token is None
    file = write_secret(tmp_path / "token", "0123456789abcdef0123\n")
    told = settings("--controller-token-file", str(file))
    assert told.controller_token == "0123456789abcdef0123"
    assert "0123456789abcdef0123" not in repr(told)


@pytest.mark.parametrize("text", ["", "\n", "two words", "a\nb", "ä", "a" * (TOKEN_CHARS_MAX + 1)])
def test_a_file_that_holds_no_token_is_refused(text: str, tmp_path: Path) -> None:
    file = write_secret(tmp_path / "token", text)
    with pytest.raises(CommandLineError, match="--controller-token-file"):
        settings("--controller-token-file", str(file))
    file.chmod(0o644)
    with pytest.raises(CommandLineError, match="chmod 600"):
        settings("--controller-token-file", str(file))
    with pytest.raises(CommandLineError, match="No such file"):
        settings("--controller-token-file", str(tmp_path / "absent"))


def test_a_password_for_controllers_is_no_argument() -> None:
    with pytest.raises(CommandLineError, match="use --controller-token-file"):
        settings("--controllers", "https://broker:s3cret@ctl1:8080")


def test_a_listener_that_other_hosts_reach_has_tls_or_is_wanted_so(tmp_path: Path) -> None:
    for loopback in ("127.0.0.1:1", "[::1]:1", "localhost:1"):
        settings("--listen", loopback)
    for address in ("0.0.0.0:1", "[::]:1", "10.0.0.1:1", "store1:1"):
        with pytest.raises(CommandLineError, match="accept it with --insecure-network") as refused:
            settings("--listen", address)
        assert "springtide certificates create" in str(refused.value)
        settings("--listen", address, "--insecure-network")
    file = tmp_path / "server.properties"
    text = (
        "listeners=SSL://0.0.0.0:1,PLAINTEXT://{}:2\nssl.keystore.location=k\ninter.broker.listener.name=SSL"
    )
    file.write_text(text.format("localhost"))
    settings("--config-file", str(file))
    file.write_text(text.format(""))
    with pytest.raises(CommandLineError, match=r"^listener PLAINTEXT :2 \(PLAINTEXT\) can be reached"):
        settings("--config-file", str(file))


def test_a_broker_may_open_as_many_files_as_its_host_allows() -> None:
    """A shell's 1,024 ended a broker's log directory after a few hundred partitions."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1_024), hard))
    try:
        assert raise_open_files_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_deleted_logs_files_are_closed_although_it_was_there_at_the_start(tmp_path: Path) -> None:
    """A broker kept the logs that it had started with: after two large topics no file could be opened."""
    log_dir = open_log_dir(PosixDisk(), str(tmp_path), broker_id=1, new_dir_id="dir-1", boot_id="boot")
    load_logs(log_dir, wall_ms=lambda: 0)
    log_dir.on_registered(cluster_id="cluster", broker_epoch=BrokerEpoch(1))
    log_dir.make(PartitionId("AAAAAAAAAAAAAAAAAAAAAA", "orders", 0), now_ms=0)
    log_dir.sync_names()
    log_dir.close_cleanly({})
    del log_dir
    gc.collect()

    opened = open_broker(settings(), Ports(), data_dir=str(tmp_path), boot_id="boot")
    (key,) = opened.log_dir.logs
    directory = opened.log_dir.logs[key].directory
    assert open_files(directory)
    opened.log_dir.delete(key)
    assert not open_files(directory)


def open_files(directory: str) -> list[str]:
    """Return the files of this directory, by whatever name it has now, that this process has open."""
    found = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [str(file) for file in found if str(file).startswith(directory)]
