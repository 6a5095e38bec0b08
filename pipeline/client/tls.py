"""TLS for a blocking connection, and what to do about its failures."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from pipeline.client.errors import AccessRefused, InvalidClientOption
from pipeline.client.security import ClientSecurity, TlsOptions
from springtide.tls import NO_TLS, UNKNOWN_ISSUER, TlsFilesInvalid, load_ca, load_cert

JOINED_BYTES: Final = 64 * 1024
"""Pieces smaller than this share a write, and so a record: ssl has no sendmsg."""
_OTHER_NAME: Final = frozenset({62, 64})
"""OpenSSL's codes for a certificate of another host, or another address."""
_NOTHING_SHOWN: Final = ("CERTIFICATE_REQUIRED", "ALERT_HANDSHAKE_FAILURE")
_NOT_TRUSTED: Final = ("ALERT_UNKNOWN_CA", "ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE_UNKNOWN")
_ALERT: Final = b"\x15\x03"


def secure(connected: socket.socket, host: str, security: ClientSecurity) -> ssl.SSLSocket:
    """Shake hands within the socket's timeout, and return the socket that replaces this one. host: the name
    that the broker's certificate must have. Raises InvalidClientOption for files that can't be used,
    AccessRefused, OSError."""
    assert security.tls is not None, "the caller asks for TLS"
    context = _context(security, security.tls)
    try:
        return context.wrap_socket(connected, server_hostname=host)
    except ssl.SSLError as error:
        advice = certain_advice(error, security, host)
        if advice is None:
            raise
        raise AccessRefused(advice) from error


def _context(security: ClientSecurity, tls: TlsOptions) -> ssl.SSLContext:
    """Read the files: they may have been renewed since the last connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.check_hostname = tls.verifies_names
    option = security.option("ssl.truststore.location")
    try:
        if tls.truststore is None:
            context.load_default_certs()
        else:
            load_ca(context, tls.truststore)
        if tls.keystore is not None:
            option = security.option("ssl.keystore.location")
            load_cert(context, tls.keystore, tls.keystore)
    except TlsFilesInvalid as error:
        raise InvalidClientOption(f"{option}: {error}") from error
    return context


def joined_writes(connected: ssl.SSLSocket) -> Callable[[Sequence[memoryview]], int]:
    """Return a function that sends some of the pieces in front and returns how many bytes."""

    def send(pieces: Sequence[memoryview]) -> int:
        taken, size = 0, 0
        while taken < len(pieces) and size + pieces[taken].nbytes <= JOINED_BYTES:
            size += pieces[taken].nbytes
            taken += 1
        return connected.send(pieces[0] if taken <= 1 else b"".join(pieces[:taken]))

    return send


def last_word(connected: socket.socket | None, error: OSError) -> OSError:
    """Return what the broker said before it closed the connection, or else the error of a send. With TLS 1.3
    it refuses a client's certificate only after the handshake."""
    if isinstance(connected, ssl.SSLSocket) and not isinstance(error, TimeoutError):
        try:
            connected.recv(1)
        except OSError as told:
            return told
    return error


def certain_advice(error: OSError, security: ClientSecurity, host: str) -> str | None:
    """Return why no other try can succeed, and what to change; None if the error does not tell."""
    if not isinstance(error, ssl.SSLError):
        return None
    option = security.option
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in UNKNOWN_ISSUER:
            return (
                "its certificate is from a CA that is not trusted here: name the CA's file in "
                f"{option('ssl.truststore.location')}"
            )
        if error.verify_code in _OTHER_NAME:
            return (
                f"its certificate is not for {host}: reach brokers by a name in their certificates, in "
                f"{option('bootstrap.servers')} and in their advertised.listeners"
            )
        return f"its certificate is refused: {error.verify_message}"
    reason = error.reason or ""
    if reason.endswith(_NOTHING_SHOWN):
        return (
            "it takes only clients with a certificate: name the file of one and its key in "
            f"{option('ssl.keystore.location')}"
        )
    if reason.endswith(_NOT_TRUSTED):
        return (
            f"it does not trust the certificate in {option('ssl.keystore.location')}: take one of a CA in "
            "the listener's ssl.truststore.location"
        )
    if reason in NO_TLS:
        return f"it does not speak TLS there: {_other_protocol(option, 'PLAINTEXT or SASL_PLAINTEXT')}"
    return None


def is_alert(first: bytes | bytearray) -> bool:
    """Return whether the first bytes of an answer are TLS's word to one who does not speak it."""
    return first.startswith(_ALERT)


def tls_wanted(security: ClientSecurity) -> str:
    """Return what to do where the listener speaks TLS and the client does not."""
    return f"it speaks TLS there: {_other_protocol(security.option, 'SSL or SASL_SSL')}"


def _other_protocol(option: Callable[[str], str], protocols: str) -> str:
    return f"set {option('security.protocol')} to {protocols}, or take the port of another listener"


def why_it_may_have_hung_up(security: ClientSecurity, *, is_handshake: bool) -> str:
    """Return what to check where a broker ended a connection before its first answer."""
    if security.tls is None:
        return f"perhaps {tls_wanted(security)}"
    if is_handshake:
        return "perhaps it does not speak TLS there"
    return f"perhaps it takes only clients with a certificate: {security.option('ssl.keystore.location')}"
