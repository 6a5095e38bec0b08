"""A controller's server over TLS on a real socket, and how its clients verify it and show themselves."""

from __future__ import annotations

import functools
import io
import json
import ssl
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import anyio.to_thread
import httpx
import pytest
import trio

from admin_api.__main__ import main
from admin_api.http.tokens import load_tokens
from admin_api.settings import ApiSettings
from controller.addresses import advertised_url
from controller.config import ConfigError, load_config
from dataplane.__main__ import _parser, _settings
from springtide.__main__ import execute
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.updates import ProducerIdsRequest
from springtide.node.clock import MachineClock
from springtide.node.command_line import CommandLineError
from springtide.node.controller_client import ControllerClient, ControllerUnavailable
from springtide.tls import TlsFilesInvalid, check_server_files, client_context
from tests.kit.controller.http_bytes import SETTINGS, connect, serving
from tests.kit.springtide.certificates import Pair, PrivateCa


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True)
class Certificates:
    ca: PrivateCa
    server: Pair
    client: Pair
    elsewhere: Pair
    other_ca: PrivateCa
    stranger: Pair

    def serving(
        self, *, client_ca: str = "", settings: ApiSettings = SETTINGS
    ) -> AbstractAsyncContextManager[int]:
        return serving(
            settings=settings, tls_cert=self.server.cert, tls_key=self.server.key, client_ca=client_ca
        )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    directory = tmp_path_factory.mktemp("certificates")
    ca, other = PrivateCa(directory), PrivateCa(directory, "other-ca")
    return Certificates(
        ca=ca,
        server=ca.issue("server"),
        client=ca.issue("client"),
        elsewhere=ca.issue("elsewhere", host="192.0.2.1"),
        other_ca=other,
        stranger=other.issue("stranger"),
    )


def ask(
    url: str, *flags: str, timeout_s: int = 60, what: Sequence[str] = ("clusters", "list")
) -> tuple[int, str, str]:
    """Exit status, output and complaints of the command."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    line = [*what, "--output", "json", "--url", url, "--timeout", str(timeout_s), *flags]
    status = execute(line, {}, out, err, columns=None)
    out.flush()
    return status, out.buffer.getvalue().decode(), err.getvalue()


def ask_as_broker(url: str, tls: ssl.SSLContext | None) -> str:
    """Why a broker's request has no answer that it believes."""

    async def run() -> str:
        client = ControllerClient(urls=(url,), cluster="prod", broker_id=1, clock=MachineClock(), tls=tls)
        try:
            answer = await client.allocate_producer_ids(
                ProducerIdsRequest(broker_id=1, broker_epoch=BrokerEpoch(1))
            )
            return answer.error.value
        except ControllerUnavailable as error:
            return str(error)
        finally:
            await client.aclose()

    return trio.run(run)


def key_args(pair: Pair) -> tuple[str, ...]:
    return ("--cert-file", pair.cert, "--key-file", pair.key)


@pytest.mark.anyio
async def test_operators_and_brokers_reach_a_controller_that_a_private_ca_vouches_for(
    made: Certificates,
) -> None:
    tls = client_context(ca=made.ca.file, cert=None, key=None)
    async with made.serving() as port:
        url = f"https://127.0.0.1:{port}"
        status, out, err = await anyio.to_thread.run_sync(ask, url, "--ca-file", made.ca.file)
        assert (status, json.loads(out)["items"], err) == (0, [], "")
        answer = await anyio.to_thread.run_sync(ask_as_broker, url, tls)
        assert answer == "unknown_cluster"


@pytest.mark.anyio
async def test_a_controller_of_an_unknown_ca_is_refused_at_once_with_what_to_do(made: Certificates) -> None:
    async with made.serving() as port:
        url = f"https://127.0.0.1:{port}"
        for flags in ((), ("--ca-file", made.other_ca.file)):
            status, _, err = await anyio.to_thread.run_sync(ask, url, *flags)
            assert (status, err.count("\n")) == (3, 1)
            assert f"{url}: its certificate is from an unknown CA" in err
            assert "--ca-file" in err
        reason = await anyio.to_thread.run_sync(ask_as_broker, url, None)
        assert "--controller-ca" in reason


@pytest.mark.anyio
async def test_a_certificate_for_another_host_is_refused(made: Certificates) -> None:
    async with serving(tls_cert=made.elsewhere.cert, tls_key=made.elsewhere.key) as port:
        status, _, err = await anyio.to_thread.run_sync(
            ask, f"https://127.0.0.1:{port}", "--ca-file", made.ca.file
        )
    assert status == 3
    assert "IP address mismatch" in err


# httpx leaves the body of a request that a server cut off, and trio complains of it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.anyio
async def test_with_a_client_ca_nothing_is_served_without_a_certificate_of_it(made: Certificates) -> None:
    trusting = ("--ca-file", made.ca.file)
    async with made.serving(client_ca=made.ca.file) as port:
        url = f"https://127.0.0.1:{port}"
        for flags in ((), key_args(made.stranger)):
            status, _, err = await anyio.to_thread.run_sync(
                functools.partial(ask, url, *trusting, *flags, timeout_s=0)
            )
            assert status == 3
            assert "name one with --cert-file and --key-file" in err
        tls = client_context(ca=made.ca.file, cert=None, key=None)
        reason = await anyio.to_thread.run_sync(ask_as_broker, url, tls)
        assert "name one with --controller-client-cert" in reason
        for path in ("/healthz", "/readyz", "/metrics"):
            with pytest.raises(httpx.TransportError):
                async with httpx.AsyncClient(verify=tls) as client:
                    await client.get(url + path)

        status, out, err = await anyio.to_thread.run_sync(ask, url, *trusting, *key_args(made.client))
        assert (status, json.loads(out)["items"], err) == (0, [], "")
        known = client_context(ca=made.ca.file, cert=made.client.cert, key=made.client.key)
        answer = await anyio.to_thread.run_sync(ask_as_broker, url, known)
        assert answer == "unknown_cluster"


@pytest.mark.anyio
async def test_a_certificate_with_a_role_needs_no_token_and_has_no_more_rights(made: Certificates) -> None:
    tokens = load_tokens(
        file=None, environment="client viewer cert:127.0.0.1;elsewhere operator cert:192.0.2.1"
    )
    trusting = ("--ca-file", made.ca.file)

    def create(url: str, pair: Pair) -> tuple[int, str, str]:
        return ask(url, *trusting, *key_args(pair), what=("clusters", "create", "prod"))

    async with serving(
        tls_cert=made.server.cert, tls_key=made.server.key, client_ca=made.ca.file, tokens=tokens
    ) as port:
        url = f"https://127.0.0.1:{port}"
        status, _, err = await anyio.to_thread.run_sync(create, url, made.client)
        assert status == 1
        assert "which the role viewer of client does not give; the role operator does" in err
        assert (await anyio.to_thread.run_sync(create, url, made.elsewhere))[0] == 0
        known = client_context(ca=made.ca.file, cert=made.client.cert, key=made.client.key)
        async with httpx.AsyncClient(verify=known) as client:
            rows = (await client.get(f"{url}/audit?kind=request")).json()["items"]
            assert [row["actor"] for row in rows] == ["elsewhere"]
            refused = await client.get(f"{url}/clusters", headers={"Authorization": "Bearer no-such-token"})
            assert refused.status_code == 401, "a token that is sent decides"


@pytest.mark.anyio
async def test_https_to_a_port_without_tls_is_explained(made: Certificates) -> None:
    async with serving() as port:
        status, _, err = await anyio.to_thread.run_sync(
            ask, f"https://127.0.0.1:{port}", "--ca-file", made.ca.file
        )
    assert status == 3
    assert "it does not speak TLS: write http://" in err


@pytest.mark.anyio
async def test_plain_bytes_and_old_tls_are_not_served(made: Certificates) -> None:
    async with made.serving() as port:
        async with await connect(port) as stream:
            await stream.send(b"GET /healthz HTTP/1.1\r\nHost: c1\r\n\r\n")
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                while b"HTTP/1.1 200" not in await stream.receive():
                    pass
        old = client_context(ca=made.ca.file, cert=None, key=None)
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning):
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(httpx.ConnectError):
            async with httpx.AsyncClient(verify=old) as client:
                await client.get(f"https://127.0.0.1:{port}/healthz")


@pytest.mark.anyio
@pytest.mark.parametrize(("hsts_s", "told"), [(0, None), (600, "max-age=600")])
async def test_browsers_are_told_to_keep_to_https_where_the_operator_says_so(
    made: Certificates, hsts_s: int, told: str | None
) -> None:
    tls = client_context(ca=made.ca.file, cert=None, key=None)
    async with (
        made.serving(settings=ApiSettings(hsts_s=hsts_s)) as port,
        httpx.AsyncClient(verify=tls) as client,
    ):
        answer = await client.get(f"https://127.0.0.1:{port}/healthz")
    assert answer.headers.get("strict-transport-security") == told
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        (lambda made: (made.server.cert, made.client.key, None), "is not that of the certificate"),
        (lambda made: (made.server.cert, made.ca.encrypt(made.server).key, None), "is encrypted"),
        (lambda made: (made.server.key, made.server.key, None), "not a certificate and its key"),
        (lambda made: ("/no/such.pem", made.server.key, None), "cannot read /no/such.pem: No such file"),
        (lambda made: (made.server.cert, "/", None), "cannot read /: Is a directory"),
        (lambda made: (made.server.cert, made.server.key, made.server.key), "no certificate of a CA"),
    ],
)
def test_files_that_cannot_be_used_are_named_at_the_start(
    made: Certificates,
    files: Callable[[Certificates], tuple[str, str, str | None]],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cert, key, client_ca = files(made)
    with pytest.raises(TlsFilesInvalid, match=complaint):
        check_server_files(cert=cert, key=key, client_ca=client_ca)
    flags = ["--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key]
    assert main(["serve", *flags, *(("--client-ca", client_ca) if client_ca else ())]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"tls_cert": "c"}, "--tls-cert and --tls-key belong together"),
        ({"tls_key": "k"}, "--tls-cert and --tls-key belong together"),
        ({"client_ca": "a"}, "need TLS"),
        ({"hsts_s": "1"}, "need TLS"),
        ({"tls_cert": "c", "tls_key": "k", "advertise": "http://ctl1:1"}, "must be https://"),
    ],
)
def test_settings_that_do_not_fit_each_other_are_refused(flags: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_config(flags, {})


def test_with_tls_the_address_that_others_are_told_is_https() -> None:
    config = load_config({"listen": "127.0.0.1:0", "tls_cert": "c", "tls_key": "k"}, {})
    assert advertised_url(config, bound_port=4711) == "https://127.0.0.1:4711"


def test_a_clients_files_are_named_when_they_cannot_be_used(made: Certificates) -> None:
    status, _, err = ask("https://127.0.0.1:1", "--ca-file", made.server.key)
    assert (status, "--ca-file" in err, "no certificate of a CA" in err) == (2, True, True)
    status, _, err = ask("https://127.0.0.1:1", "--cert-file", made.client.cert)
    assert (status, "belong together" in err) == (2, True)

    serve = (
        "serve",
        "--cluster",
        "prod",
        "--broker-id",
        "1",
        "--controllers",
        "https://c1",
        "--data-dir",
        "d",
    )
    parse = functools.partial(_parser().parse_args)
    assert _settings(parse(serve)).controller_tls is None
    assert _settings(parse([*serve, "--controller-ca", made.ca.file])).controller_tls is not None
    with pytest.raises(CommandLineError, match=r"--controller-ca.*cannot read /no/such"):
        _settings(parse([*serve, "--controller-ca", "/no/such"]))


def test_a_hint_does_not_lead_a_broker_out_of_tls() -> None:
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(307, headers={"location": "http://two:2/x"})

    async def run() -> None:
        client = ControllerClient(
            urls=("https://one:1",),
            cluster="prod",
            broker_id=1,
            clock=MachineClock(),
            transport=httpx.MockTransport(handle),
            token="secret",
        )
        with pytest.raises(ControllerUnavailable):
            await client.allocate_producer_ids(ProducerIdsRequest(broker_id=1, broker_epoch=BrokerEpoch(1)))
        await client.aclose()

    trio.run(run)
    assert [url.partition("/internal")[0] for url in asked] == ["https://one:1"]
