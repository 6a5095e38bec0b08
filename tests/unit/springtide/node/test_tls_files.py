"""The files of a listener's TLS: read again when they change, and never the end of the process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cryptography import x509

from springtide.node.tls_files import TlsFiles, TlsMaterial
from springtide.tls import TlsFilesInvalid
from tests.kit.springtide.certificates import PrivateCa


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    ca = PrivateCa(tmp_path)
    return TlsFiles(keystore=ca.keystore("broker"), truststore=ca.file, client_auth="none")


def spoil(file: Path, how: str) -> None:
    match how:
        case "gone":
            file.unlink()
        case "empty":
            file.write_text("")
        case "half":
            file.write_text(file.read_text()[: file.stat().st_size // 2])
        case "a folder":
            file.unlink()
            file.mkdir()
        case "no certificate":
            file.write_text(file.read_text().split("-----BEGIN CERTIFICATE")[0] or "nothing")


@pytest.mark.parametrize("how", ["gone", "empty", "half", "a folder", "no certificate"])
@pytest.mark.parametrize("which", ["keystore", "truststore"])
def test_files_that_can_not_be_used_leave_what_there_was(files: TlsFiles, which: str, how: str) -> None:
    material = TlsMaterial(files)
    before = (material.server, material.client, material.not_after_ms)
    file = Path(getattr(files, which))
    spoil(file, how)
    with pytest.raises(TlsFilesInvalid):
        material.refresh()
    assert (material.server, material.client, material.not_after_ms) == before
    assert material.refresh() is False, "told once, until it changes again"
    with pytest.raises(TlsFilesInvalid):
        TlsMaterial(files)


def test_a_file_that_goes_while_it_is_read_is_no_end(
    files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    material = TlsMaterial(files)
    Path(files.keystore).touch()

    def vanished(data: bytes) -> list[x509.Certificate]:
        raise FileNotFoundError(2, "No such file or directory", files.keystore)

    monkeypatch.setattr(x509, "load_pem_x509_certificates", vanished)
    with pytest.raises(TlsFilesInvalid, match="No such file"):
        material.refresh()


def test_a_certificate_that_openssl_takes_and_python_does_not_is_no_end(
    files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    material = TlsMaterial(files)
    Path(files.keystore).touch()

    def refuse(data: bytes) -> list[x509.Certificate]:
        raise ValueError("error parsing asn1 value")

    monkeypatch.setattr(x509, "load_pem_x509_certificates", refuse)
    with pytest.raises(TlsFilesInvalid, match="asn1"):
        material.refresh()


def test_a_key_that_others_can_read_is_not_taken_up_until_they_can_not(files: TlsFiles) -> None:
    material = TlsMaterial(files)
    keystore = Path(files.keystore)
    keystore.chmod(0o644)
    with pytest.raises(TlsFilesInvalid, match=f"chmod 600 {keystore}"):
        material.refresh()
    with pytest.raises(TlsFilesInvalid, match="every user of this host can get at it"):
        TlsMaterial(files)
    keystore.chmod(0o600)
    assert material.refresh() is True


def test_a_link_that_is_swapped_is_a_change(files: TlsFiles, tmp_path: Path) -> None:
    """As Kubernetes replaces a mounted secret."""
    link = tmp_path / "mounted.pem"
    for name in ("one", "two"):
        shutil.copy(files.keystore, tmp_path / name)
    link.symlink_to(tmp_path / "one")
    material = TlsMaterial(TlsFiles(keystore=str(link), truststore=files.truststore, client_auth="none"))
    assert material.refresh() is False
    link.unlink()
    link.symlink_to(tmp_path / "two")
    assert material.refresh() is True
