"""Where a setting comes from, which one wins, and what is said about one that can't be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from admin_api.__main__ import main
from controller.addresses import advertised_url, check_access, check_advertisable
from controller.config import OPTIONS, ConfigError, grace_ms_min, load_config
from controller.core.options import PreflightLimits
from controller.zookeeper import read_access
from tests.kit.secret_file import write_secret


def test_flags_win_over_the_environment_over_the_file_over_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "controller.toml"
    file.write_text(
        'listen = "127.0.0.1:1"\nzookeeper = "file:1"\n'
        'database-url = "sqlite:///file"\nbroker.lease.ms = 4000\n'
    )
    environment = {"SPRINGTIDE_LISTEN": "127.0.0.1:2", "SPRINGTIDE_ZOOKEEPER": "environment:2"}
    config = load_config({"listen": "127.0.0.1:3"}, environment, file=file)
    assert (config.listen, config.zookeeper, config.database_url, config.broker_lease_ms) == (
        "127.0.0.1:3",
        "environment:2",
        "sqlite:///file",
        4000,
    )
    assert config.broker_session_timeout_ms == 6000


def test_the_file_can_be_named_by_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "controller.toml"
    file.write_text('listen = "127.0.0.1:7"\n')
    assert load_config({}, {"SPRINGTIDE_CONFIG": str(file)}).listen == "127.0.0.1:7"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"listen": "8080"}, "not host:port"),
        ({"listen": "host:99999"}, "not host:port"),
        ({"advertise": "controller:8080"}, "is not a URL"),
        ({"broker_lease_ms": "ten"}, "--broker-lease-ms must be a whole number"),
        ({"broker_lease_ms": "1000"}, "must span three heartbeats"),
        ({"broker_lease_ms": "6000"}, "--broker-session-timeout-ms 6000 must be at least 6550"),
        ({"zookeeper_session_timeout_ms": "10000"}, "must be at least 11000"),
        ({"zookeeper_session_timeout_ms": "10"}, "must be at least 500"),
        ({"audit_retention_days": "-1"}, "must be at least 0"),
        ({"zookeeper_client_cert": "c"}, "name both files or neither"),
        ({"zookeeper_client_cert": "c", "zookeeper_client_key": "k"}, "add --zookeeper-ca"),
        ({"read_only": "perhaps"}, "must be true or false"),
        ({"observer": "2"}, "must be true or false"),
        ({"log_level": "loud"}, "is not one of"),
        ({"log_format": "xml"}, "--log-format 'xml' is not one of text, json"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_what_to_do(
    flags: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_config(flags, {})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("colour = 1", "unknown setting 'colour'; known are: .*listen"),
        ("listen = 5", "must be of type str"),
        ("listen = ", "not valid TOML"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "controller.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        load_config({}, {}, file=file)
    with pytest.raises(ConfigError, match="cannot read"):
        load_config({}, {}, file=tmp_path / "absent.toml")


def test_what_is_enough_of_a_new_broker_is_a_setting() -> None:
    assert load_config({}, {}).options().preflight == PreflightLimits()
    flags = {
        "preflight_free_bytes_min": "1000",
        "preflight_flush_ms_max": "2000",
        "preflight_clock_skew_ms_max": "3000",
    }
    assert load_config(flags, {}).options().preflight == PreflightLimits(
        free_bytes_min=1_000, flush_ms_max=2_000, clock_skew_ms_max=3_000
    )


def test_the_grace_outlasts_the_lease_on_a_clock_that_runs_slow() -> None:
    for lease_ms in (300, 5_000, 60_000):
        assert grace_ms_min(lease_ms) >= lease_ms * 1.05 + 250
    assert load_config({}, {}).broker_session_timeout_ms >= grace_ms_min(5_000)


def test_a_wildcard_address_must_be_advertised_under_a_name() -> None:
    config = load_config({"listen": "0.0.0.0:8080"}, {})
    assert not config.is_loopback_only
    with pytest.raises(ConfigError, match="--advertise"):
        check_advertisable(config)
    named = load_config({"listen": "0.0.0.0:8080", "advertise": "http://ctl1:8080/"}, {})
    check_advertisable(named)
    assert advertised_url(named, bound_port=8080) == "http://ctl1:8080"


def test_other_hosts_are_let_in_with_tokens_and_tls_or_on_purpose() -> None:
    for listen in ("127.0.0.1:1", "[::1]:1", "localhost:1"):
        check_access(load_config({"listen": listen}, {}), has_tokens=False)
    for listen in ("0.0.0.0:1", "[::]:1", "10.0.0.1:1", "ctl1:1"):
        with pytest.raises(ConfigError, match="--tokens-file FILE"):
            check_access(load_config({"listen": listen}, {}), has_tokens=False)
        with pytest.raises(ConfigError, match="--insecure-network") as refused:
            check_access(load_config({"listen": listen}, {}), has_tokens=True)
        assert "springtide certificates create" in str(refused.value)
        for decided in ({"insecure_network": "true"}, {"tls_cert": "c", "tls_key": "k"}):
            check_access(load_config({"listen": listen, **decided}, {}), has_tokens=True)
            anonymous = load_config({"listen": listen, "allow_anonymous": "true", **decided}, {})
            check_access(anonymous, has_tokens=False)


def test_a_controller_that_would_be_open_to_other_hosts_does_not_start(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPRINGTIDE_TOKENS", raising=False)
    serve = ["serve", "--listen", "0.0.0.0:0", "--advertise", "http://ctl1:1"]
    assert main(serve) == 2
    assert "there are no tokens" in capsys.readouterr().err
    assert main([*serve, "--tokens-file", str(tmp_path / "absent")]) == 2
    assert "cannot read" in capsys.readouterr().err
    monkeypatch.setenv("SPRINGTIDE_TOKENS", "alice admin cert:alice")
    assert main(serve) == 2
    assert "add --client-ca" in capsys.readouterr().err
    monkeypatch.setenv("SPRINGTIDE_TOKENS", "alice admin short")
    assert main(serve) == 2
    assert "the environment, line 1" in capsys.readouterr().err


def test_a_databases_password_is_no_argument_and_in_no_file_that_others_can_read(tmp_path: Path) -> None:
    url = "postgresql+psycopg://springtide:s3cret@db/springtide"
    with pytest.raises(ConfigError, match="SPRINGTIDE_DATABASE_URL") as refused:
        load_config({"database_url": url}, {})
    assert "s3cret" not in str(refused.value)
    assert load_config({}, {"SPRINGTIDE_DATABASE_URL": url}).database_url == url
    file = write_secret(tmp_path / "controller.toml", f'database_url = "{url}"')
    assert load_config({}, {}, file=file).database_url == url
    file.chmod(0o644)
    with pytest.raises(ConfigError, match=f"chmod 600 {file}"):
        load_config({}, {}, file=file)


def test_the_identity_for_zookeeper_is_read_from_a_file_or_the_environment(tmp_path: Path) -> None:
    identity = "springtide:0123456789abcdef0123"
    file = write_secret(tmp_path / "identity", f"{identity}\n")
    config = load_config({"zookeeper_auth_file": str(file)}, {})
    assert read_access(config, {}).identities == (identity,)
    variable = {"SPRINGTIDE_ZOOKEEPER_AUTH": f"{identity};newer:{identity}"}
    assert read_access(load_config({}, {}), variable).identities == (identity, f"newer:{identity}")
    file.chmod(0o644)
    for flags, environment, complaint in (
        ({"zookeeper_auth_file": str(file)}, {}, f"chmod 600 {file}"),
        ({"zookeeper_auth_file": str(file)}, variable, "are both given"),
        ({"zookeeper_root": "/"}, variable, "belongs to all clients"),
        ({"zookeeper_ca": str(tmp_path / "absent")}, {}, "cannot read"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            read_access(load_config(flags, {}), environment)


def test_the_bound_port_is_advertised_when_any_was_asked_for() -> None:
    assert (
        advertised_url(load_config({"listen": "127.0.0.1:0"}, {}), bound_port=4711) == "http://127.0.0.1:4711"
    )
    assert advertised_url(load_config({"listen": "[::1]:0"}, {}), bound_port=4711) == "http://[::1]:4711"


def test_a_chroot_in_the_connect_string_comes_before_the_root() -> None:
    config = load_config({"zookeeper": "zk1:2181,zk2:2181/shared"}, {})
    assert (config.zookeeper_hosts, config.zookeeper_path) == ("zk1:2181,zk2:2181", "/shared/springtide")


def test_help_names_every_option_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for option in OPTIONS:
        assert option.flag in shown
    assert "(default: 5000)" in shown and "(default: 127.0.0.1:8080)" in shown


def test_a_wrong_configuration_ends_with_status_2_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--listen", "nowhere"]) == 2
    assert capsys.readouterr().err.startswith("controller: 'nowhere' is not host:port")


def test_a_controller_starts_without_what_only_migrations_and_tokens_of_issuers_need() -> None:
    script = (
        "import admin_api.__main__, sys; print(*{'alembic', 'cryptography', 'httpx'} & sys.modules.keys())"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "\n"


def test_the_module_is_the_same_program_as_the_command() -> None:
    wrong = [sys.executable, "-m", "controller", "serve", "--listen", "nowhere"]
    ended = subprocess.run(wrong, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("controller: 'nowhere' is not host:port")
