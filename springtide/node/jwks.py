"""The public keys of an issuer of tokens, fetched over HTTP again and again.

A token that names an unknown key waits for a fetch that it sets off, since an issuer may change its keys at
any time; but only once in a while, since a client may name any key. A fetch that fails leaves the keys there
were.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Final, cast

import httpx
import trio
from joserfc.jwk import KeySet

from springtide.node.clock import Clock
from springtide.node.sasl_settings import IssuerSettings
from springtide.node.threads import Threads
from springtide.security.sasl.oauthbearer import OauthbearerServer, TokenAccepted, TokenFault, TokenRefused
from springtide.security.sasl.tokens import (
    JWKS_BYTES_MAX,
    JwksInvalid,
    names_unknown_key,
    parse_jwks,
    verify_token,
)
from springtide.tls import default_context

_log = logging.getLogger(__name__)

FETCH_MS_MAX: Final = 10_000
RETRY_MS: Final = 10_000
"""The time after a failure, and between two fetches that tokens set off."""
CHUNK_BYTES: Final = 16 * 1024


class IssuerKeys:
    """The keys of one issuer. failures: the fetches that brought no usable keys."""

    def __init__(self, settings: IssuerSettings, clock: Clock, threads: Threads) -> None:
        self.settings = settings
        self._clock = clock
        self._threads = threads
        self._keys: KeySet | None = None
        self._is_fetching = False
        self._fetched_ms = -RETRY_MS
        self._is_wanted = trio.Event()
        #: The end of the fetch that runs or comes next.
        self._end_of_fetch = trio.Event()
        self._is_failing = False
        self.failures = 0

    def verify(self, token: str) -> TokenAccepted | TokenRefused:
        """Return whose token it is, or why it is refused. It may run in a thread."""
        if self._keys is None:
            return TokenRefused(TokenFault.UNKNOWN_KEY, "the keys of the issuer were not fetched yet")
        return verify_token(token, self._keys, self.settings.rules, wall_ms=self._clock.wall_ms())

    async def prepare(self, message: bytes) -> None:
        """Wait for newer keys if the token in a client's message needs them, and a fetch is allowed now."""
        if self._keys is not None and not names_unknown_key(_token_in(message), self._keys):
            return
        if not self._is_fetching:
            if self._clock.mono_ms() - self._fetched_ms < RETRY_MS:
                return
            self._is_wanted.set()
        await self._end_of_fetch.wait()

    async def run(self) -> None:
        """Keep the keys up to date until cancelled."""
        while True:
            self._is_wanted = trio.Event()
            self._is_fetching = True
            await self._fetch()
            self._is_fetching = False
            self._fetched_ms = self._clock.mono_ms()
            ended, self._end_of_fetch = self._end_of_fetch, trio.Event()
            ended.set()
            refresh_ms = self.settings.refresh_ms
            with self._clock.timeout_ms(min(RETRY_MS, refresh_ms) if self._is_failing else refresh_ms):
                await self._is_wanted.wait()

    async def _fetch(self) -> None:
        try:
            with self._clock.timeout_ms(FETCH_MS_MAX) as scope:
                document = await self._read()
                keys = await self._threads.run(lambda: parse_jwks(document))
            if scope.cancelled_caught:
                raise JwksInvalid(f"no answer within {FETCH_MS_MAX} ms")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, JwksInvalid) as error:
            self.failures += 1
            if not self._is_failing:
                self._is_failing = True
                _log.warning(
                    "jwks_not_fetched url=%s cause=%s consequence=%s",
                    self.settings.jwks_url,
                    str(error) or type(error).__name__,
                    "tokens are refused" if self._keys is None else "the keys fetched before stay in use",
                )
        else:
            if self._is_failing or self._keys is None:
                _log.info("jwks_fetched url=%s keys=%d", self.settings.jwks_url, len(keys.keys))
            self._keys = keys
            self._is_failing = False

    async def _read(self) -> bytes:
        """Return the document, or as much of it as is too much. Raise httpx.HTTPError, OSError."""
        url, document = self.settings.jwks_url, b""
        has_tls = url.startswith("https:")
        # Made for each fetch, since files of CAs are renewed.
        verify = await self._threads.run(partial(default_context, trust_env=True)) if has_tls else False
        async with (
            httpx.AsyncClient(verify=verify, trust_env=False, timeout=FETCH_MS_MAX / 1000) as client,
            client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response,
        ):
            response.raise_for_status()
            chunks = cast(AsyncGenerator[bytes, None], response.aiter_raw(CHUNK_BYTES))
            async with aclosing(chunks):
                async for chunk in chunks:
                    document += chunk
                    if len(document) > JWKS_BYTES_MAX:
                        break
        return document


def _token_in(message: bytes) -> str:
    """Return the token of a client's first message, "" if there is none."""
    found = [""]

    def take(token: str) -> TokenRefused:
        found.append(token)
        return TokenRefused(TokenFault.MALFORMED)

    OauthbearerServer(take).step(message)
    return found[-1]
