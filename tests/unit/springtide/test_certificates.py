"""Certificates that `springtide certificates create` makes, held against the TLS that uses them."""

from __future__ import annotations

import io
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from springtide.__main__ import execute
from springtide.certificates import CertificatesRefused, create_certificates
from springtide.node.tls_channel import TlsFailed
from springtide.node.tls_files import TlsFiles, TlsMaterial
from tests.kit.springtide.tls_pair import TlsPair

NOW = datetime.now(UTC)


def create(directory: Path, *names: str, days: int = 30, now: datetime = NOW) -> list[str]:
    return [file.name for file, _ in create_certificates(directory, names, days=days, now=now)]


def material(directory: Path, name: str) -> TlsMaterial:
    return TlsMaterial(
        TlsFiles(
            keystore=str(directory / f"{name}.pem"),
            truststore=str(directory / "ca.pem"),
            client_auth="required",
        )
    )


def test_a_host_and_a_client_know_each_other_by_what_was_made(tmp_path: Path) -> None:
    assert create(tmp_path, "store1", "alice") == ["ca.pem", "ca.key", "store1.pem", "alice.pem"]
    store, alice = material(tmp_path, "store1"), material(tmp_path, "alice")
    pair = TlsPair(store.server, alice.client, name="store1").open()
    shown = x509.load_der_x509_certificate(pair.server.peer_certificate or b"")
    assert shown.subject.rfc4514_string() == "CN=alice"
    with pytest.raises(TlsFailed):
        TlsPair(store.server, alice.client, name="store2").open()
    assert abs(store.not_after_ms / 1000 - (NOW + timedelta(days=30)).timestamp()) < 1


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_loopback_is_one_host_by_all_of_its_names(tmp_path: Path, name: str) -> None:
    create(tmp_path, "localhost", "127.0.0.1", "::1")
    both = material(tmp_path, "localhost")
    TlsPair(both.server, both.client, name=name).open()


def test_made_again_they_are_renewed_under_the_same_ca_and_only_their_user_reads_the_keys(
    tmp_path: Path,
) -> None:
    create(tmp_path, "store1")
    ca = (tmp_path / "ca.pem").read_bytes()
    held = material(tmp_path, "store1")
    assert held.refresh() is False
    before = held.not_after_ms
    assert create(tmp_path, "store1", days=60) == ["store1.pem"]
    assert held.refresh() is True
    assert held.not_after_ms > before
    assert (tmp_path / "ca.pem").read_bytes() == ca
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {"ca.pem": 0o644, "ca.key": 0o600, "store1.pem": 0o600}


def test_a_certificate_of_another_ca_is_refused(tmp_path: Path) -> None:
    for directory in ("one", "other"):
        create(tmp_path / directory, "store1")
    with pytest.raises(TlsFailed):
        TlsPair(
            material(tmp_path / "one", "store1").server,
            material(tmp_path / "other", "store1").client,
            name="store1",
        ).open()


@pytest.mark.parametrize("name", ["", "a/b", "..", "ca", "x" * 65, "grün.example"])
def test_names_that_no_host_has_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CertificatesRefused):
        create(tmp_path, name)


def test_half_a_ca_and_a_strangers_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    create(tmp_path, "store1")
    (tmp_path / "ca.key").write_text("nonsense")
    with pytest.raises(CertificatesRefused, match="not a CA and its key"):
        create(tmp_path, "store1")
    (tmp_path / "ca.key").unlink()
    with pytest.raises(CertificatesRefused, match="both"):
        create(tmp_path, "store1")


def test_the_command_says_what_each_file_is(tmp_path: Path) -> None:
    out, err = io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO()
    words = ["certificates", "create", str(tmp_path / "certs"), "store1"]
    assert execute(words, {}, out, err, columns=None) == 0
    out.seek(0)
    said = out.read()
    assert "store1.pem: key and certificate of store1, for 365 days" in said
    assert "ca.key: the CA's key: keep it to yourself" in said
    assert execute([*words[:3], "a/b"], {}, out, err, columns=None) == 1
    assert "can't name a certificate" in err.getvalue()
    ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.pem"))
