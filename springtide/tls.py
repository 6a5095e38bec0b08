"""TLS of controllers and their clients: reads certificates and keys, and explains why a handshake failed.

Python sets the lowest version, TLS 1.2. Its messages about files name no file, and an encrypted key would
make it ask the terminal; so files are tried here first.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from springtide.secret_places import SecretExposed, check_secret_file

if TYPE_CHECKING:
    import httpx

#: OpenSSL's codes for a chain that ends in no certificate that is trusted: 2, 18, 19, 20, 21 (verify(1)).
UNKNOWN_ISSUER: Final = frozenset({2, 18, 19, 20, 21})
#: What a server answers to a client that sent no certificate, or one that it does not trust.
_CERTIFICATE_WANTED: Final = (
    "CERTIFICATE_REQUIRED",
    "ALERT_HANDSHAKE_FAILURE",
    "ALERT_UNKNOWN_CA",
    "ALERT_BAD_CERTIFICATE",
)
NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")


class TlsFilesInvalid(Exception):
    """The files can't be used. The message names the file and the reason, and repeats no secret."""


class KafkaTls(NamedTuple):
    """Files in PEM. ca: "" trusts the CAs of the system. cert, key: what is shown; "" shows nothing."""

    ca: str = ""
    cert: str = ""
    key: str = ""

    def context(self) -> ssl.SSLContext:
        """Read the files, which may have been renewed. Raise TlsFilesInvalid."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.ca:
            load_ca(context, self.ca)
        else:
            context.load_default_certs()
        if self.cert:
            load_cert(context, self.cert, self.key)
        return context


def check_server_files(*, cert: str, key: str, client_ca: str | None) -> None:
    """Raise TlsFilesInvalid unless a server can start with these files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_cert(context, cert, key)
    if client_ca is not None:
        load_ca(context, client_ca)


def client_context(*, ca: str | None, cert: str | None, key: str | None) -> ssl.SSLContext:
    """Return what a client trusts and shows.

    ca: the only CAs to trust; None trusts public ones. cert, key: both or neither. Raises TlsFilesInvalid."""
    if ca is None:
        context = default_context(trust_env=False)
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        load_ca(context, ca)
    if cert is not None and key is not None:
        load_cert(context, cert, key)
    elif cert is not None or key is not None:
        raise TlsFilesInvalid(
            "a client's certificate and its key belong together: name both files or neither"
        )
    return context


def default_context(*, trust_env: bool) -> ssl.SSLContext:
    """Return what trusts public CAs, or those of SSL_CERT_FILE and SSL_CERT_DIR. Takes a tenth of a second.

    From 3.13 on Python would refuse a CA that says nothing of the use of its key, as `openssl req -x509`
    makes them; which CAs a cluster can have must not depend on the Python of a host. Raises OSError."""
    import httpx  # noqa: PLC0415 - memory that a controller does not need

    context = httpx.create_ssl_context(trust_env=trust_env)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


class TlsFailure(NamedTuple):
    """The cause of a failed request and what to do about it. is_certain: no other attempt can succeed."""

    advice: str
    is_certain: bool = True


def explain_tls(error: httpx.HTTPError, *, url: str, ca: str, cert: str) -> TlsFailure | None:
    """Return what TLS has to do with the failure; None if nothing.

    ca, cert: the caller's options for the CA, and for the client's certificate and key."""
    if not url.startswith("https:"):
        return None
    import httpx  # noqa: PLC0415 - as above

    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            if cause.verify_code in UNKNOWN_ISSUER:
                return TlsFailure(f"its certificate is from an unknown CA: name the CA's file with {ca}")
            return TlsFailure(f"its certificate is refused: {cause.verify_message}")
        reason = cause.reason or "" if isinstance(cause, ssl.SSLError) else ""
        if reason.endswith(_CERTIFICATE_WANTED):
            return TlsFailure(
                f"it takes only clients with a certificate of its --client-ca: name one with {cert}"
            )
        if reason in NO_TLS:
            return TlsFailure("it does not speak TLS: write http:// instead of https://")
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.TimeoutException):
        return None
    # asyncio's server closes the connection without telling the client why it refuses the certificate.
    seen = str(error).rstrip(".") or type(error).__name__
    return TlsFailure(
        f"{seen}; it may take only clients with a certificate of its --client-ca: name one with {cert}",
        is_certain=False,
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def load_ca(context: ssl.SSLContext, file: str) -> None:
    _check_readable(file)
    try:
        context.load_verify_locations(file)
    except ssl.SSLError as error:
        raise TlsFilesInvalid(f"{file} has no certificate of a CA in it, in PEM") from error


def load_cert(context: ssl.SSLContext, cert: str, key: str) -> None:
    _check_readable(cert)
    _check_readable(key)
    try:
        check_secret_file(key)
    except SecretExposed as error:
        raise TlsFilesInvalid(str(error)) from error

    def refuse_encrypted() -> str:
        raise TlsFilesInvalid(
            f"{key} is encrypted: store the key without a passphrase, readable by its user only"
        )

    try:
        context.load_cert_chain(cert, key, refuse_encrypted)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsFilesInvalid(f"the key in {key} is not that of the certificate in {cert}") from error
        raise TlsFilesInvalid(f"{cert} and {key} are not a certificate and its key, in PEM") from error


def _check_readable(file: str) -> None:
    try:
        with Path(file).open("rb") as opened:
            opened.read(1)
    except OSError as error:
        raise TlsFilesInvalid(f"cannot read {file}: {error.strerror}") from error
