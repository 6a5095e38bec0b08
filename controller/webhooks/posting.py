"""Sends one message to one URL. The only place that connects to an address that an operator wrote.

The URL of a webhook makes the controller connect to any address that its author wants, so as little as
possible comes back: no redirect is followed, and of an answer only the status and Retry-After are used; its
body is not read. Proxies and private CAs come from the environment (HTTPS_PROXY, SSL_CERT_FILE).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec

if TYPE_CHECKING:
    import httpx

#: For connecting, sending and the answer, together.
ATTEMPT_S_MAX: Final = 15.0
URL_CHARS_MAX: Final = 2_000


class Posted(msgspec.Struct, frozen=True):
    """How an attempt ended. status: None: there was no answer, and `error` says why."""

    status: int | None
    error: str | None = None
    retry_after_ms: int = 0

    @property
    def is_delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def why(self) -> str:
        """Return why it was not delivered."""
        if self.status is None:
            return self.error or "no answer"
        what = ", and redirects are not followed" if 300 <= self.status < 400 else ""
        return f"the receiver answered {self.status}{what}"


class Post(Protocol):
    """Send the body once. Never raises for what the receiver or the network does."""

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Posted: ...


class HttpPost:
    """Sends over HTTP. The client is made at first use, because to load CAs takes a while."""

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Posted:
        import httpx  # noqa: PLC0415 - a controller's start does not wait for it

        try:
            if self._client is None:
                self._client = await anyio.to_thread.run_sync(_client)
            with anyio.fail_after(ATTEMPT_S_MAX):
                async with self._client.stream("POST", url, content=body, headers=dict(headers)) as answer:
                    seconds = answer.headers.get("retry-after", "")[:9]
                    wait_ms = int(seconds) * 1000 if seconds.isascii() and seconds.isdigit() else 0
                    return Posted(answer.status_code, retry_after_ms=wait_ms)
        except (TimeoutError, httpx.TimeoutException):
            return Posted(None, f"no answer within {ATTEMPT_S_MAX:.0f} s")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            # Its text may hold the URL, which is a secret.
            return Posted(None, f"it can't be reached ({type(error).__name__})")
        finally:
            if self._client is not None:
                self._client.cookies.clear()


def _client() -> httpx.AsyncClient:
    import httpx  # noqa: PLC0415 - see above

    return httpx.AsyncClient(follow_redirects=False, timeout=ATTEMPT_S_MAX)


def check_url(url: str, allowed_hosts: tuple[str, ...]) -> str:
    """Return the URL's host; raise ValueError for one that can't be a webhook's. allowed_hosts: names, or
    `*.` and what a name ends with; none: every host is allowed."""
    if len(url) > URL_CHARS_MAX:
        raise ValueError(f"must have at most {URL_CHARS_MAX} characters")
    if not url.isascii() or any(character <= " " or character == "\x7f" for character in url):
        raise ValueError("may only hold visible ASCII characters: encode others")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("is not a URL such as https://example.com/hook") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise ValueError("must begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("may have neither a user, nor a password, nor a fragment")
    if allowed_hosts and not any(
        host.endswith(one[1:]) if one.startswith("*.") else host == one for one in allowed_hosts
    ):
        raise ValueError(f"the host {host} is not one of the controller's --webhook-hosts")
    return host
