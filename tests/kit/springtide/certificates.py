"""Certificates of a private CA, made by OpenSSL's command."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.kit.secret_file import write_secret

#: Elliptic keys are made in no time.
NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, each in a file."""

    cert: str
    key: str


@dataclass(frozen=True)
class PrivateCa:
    """A CA of this test alone."""

    directory: Path
    name: str = "ca"
    #: Without it a CA is as `openssl req -x509` makes it, which Python's default refuses from 3.13 on.
    has_key_usage: bool = True

    @property
    def file(self) -> str:
        """Return its certificate, made at the first call."""
        pair = self._pair(self.name)
        if not Path(pair.cert).exists():
            usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign") if self.has_key_usage else ()
            _openssl(
                *("req", "-x509", "-nodes", *NEW_KEY, "-days", "2", "-subj", f"/CN={self.name}"),
                *usage,
                *_out(pair),
            )
        return pair.cert

    def issue(self, name: str, *, host: str = "127.0.0.1") -> Pair:
        """Make a certificate for an address."""
        pair = self._pair(name)
        _openssl(
            *("req", "-x509", "-nodes", *NEW_KEY, "-days", "2", "-subj", f"/CN={name}"),
            *("-CA", self.file, "-CAkey", self._pair(self.name).key),
            *("-addext", f"subjectAltName=IP:{host}", "-addext", "basicConstraints=critical,CA:FALSE"),
            *_out(pair),
        )
        return pair

    def keystore(self, name: str, *, host: str = "127.0.0.1") -> str:
        """Make a certificate for an address; return the file that holds it and its key."""
        pair = self.issue(name, host=host)
        file = self.directory / f"{name}.keystore.pem"
        write_secret(file, Path(pair.key).read_text() + Path(pair.cert).read_text())
        return str(file)

    def encrypt(self, pair: Pair) -> Pair:
        """Return the pair with its key under a passphrase."""
        encrypted = f"{pair.key}.encrypted"
        _openssl("ec", "-aes256", "-passout", "pass:secret", "-in", pair.key, "-out", encrypted)
        return Pair(pair.cert, encrypted)

    def _pair(self, name: str) -> Pair:
        return Pair(str(self.directory / f"{name}.pem"), str(self.directory / f"{name}.key"))


def _out(pair: Pair) -> tuple[str, ...]:
    return ("-keyout", pair.key, "-out", pair.cert)


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
