"""The controllers' addresses, the user's name and so on: from options, the environment, or defaults."""

from __future__ import annotations

import argparse
import getpass
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from springtide.cli.call import UsageError
from springtide.secret_places import SecretExposed, check_secret_file
from springtide.tls import TlsFilesInvalid, client_context

URL_DEFAULT: Final = "http://127.0.0.1:8080"
TIMEOUT_SECONDS_DEFAULT: Final = 15.0
TOKEN_CHARS_MAX: Final = 16_384
#: The names that the API accepts for a user.
_ACTOR: Final = re.compile(r"[A-Za-z0-9._@+-]{1,64}")
#: RFC 6750's b64token.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """is_json: print documents, not tables. is_yaml: those as YAML. timeout_s: how long to try while no
    controller answers. token: never printed. verify: as httpx takes it; True trusts public CAs."""

    urls: tuple[httpx.URL, ...]
    cluster: str | None
    token: str | None
    actor: str | None
    is_json: bool
    is_yaml: bool = False
    timeout_s: float
    verify: ssl.SSLContext | bool = True


def load_settings(options: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    """Return the settings; read the files of the token and for TLS. Raise UsageError."""

    def chosen(name: str) -> str | None:
        value: str | None = getattr(options, name, None)
        return value or environment.get(f"SPRINGTIDE_{name.upper()}") or None

    output: str = getattr(options, "output", "table")
    token_file = chosen("token_file")
    token = None if token_file is None else read_token(Path(token_file))
    return Settings(
        urls=parse_urls(chosen("url") or URL_DEFAULT),
        cluster=chosen("cluster"),
        token=token,
        # A token or a certificate says who asks; a name beside it would contradict.
        actor=chosen("actor") or (login() if token is chosen("cert_file") is None else None),
        is_json=output != "table",
        is_yaml=output == "yaml",
        timeout_s=getattr(options, "timeout", TIMEOUT_SECONDS_DEFAULT),
        verify=_verify(chosen("ca_file"), chosen("cert_file"), chosen("key_file")),
    )


def _verify(ca: str | None, cert: str | None, key: str | None) -> ssl.SSLContext | bool:
    if ca is cert is key is None:
        return True
    try:
        return client_context(ca=ca, cert=cert, key=key)
    except TlsFilesInvalid as error:
        raise UsageError(f"--ca-file, --cert-file, --key-file: {error}") from error


def parse_urls(text: str) -> tuple[httpx.URL, ...]:
    """Parse `ctl1:8080,https://ctl2`; the default scheme is http. Raise UsageError."""
    urls = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            url = httpx.URL(part if "://" in part else f"http://{part}")
        except httpx.InvalidURL as error:
            raise UsageError(f"--url: {part!r}: {error}") from error
        if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment or url.userinfo:
            raise UsageError(f"--url: must be http://HOST:PORT or https://HOST:PORT: {part!r}")
        urls.append(url)
    if not urls:
        raise UsageError("--url: names no controller")
    return tuple(urls)


def read_token(path: Path) -> str:
    """Return the token in a file. Raise UsageError without the file's contents in it."""
    try:
        check_secret_file(path)
        token = path.read_text(encoding="utf-8").strip()
    except SecretExposed as error:
        raise UsageError(f"--token-file: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file: can't read {str(path)!r}: {error.__class__.__name__}") from error
    if len(token) > TOKEN_CHARS_MAX or not _TOKEN.fullmatch(token):
        raise UsageError(f"--token-file: there is no bearer token in {str(path)!r}")
    return token


def login() -> str | None:
    """Return the user's login name if the API accepts it, else None."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):  # no entry for the user id, in a container
        return None
    return name if _ACTOR.fullmatch(name) else None
