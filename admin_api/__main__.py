"""The program `controller`: reads the configuration, builds the parts, runs them.

The composition root: the only place that knows the engine, its surfaces and its stores together. It stands
here because REST imports the controller and the controller never imports REST. Everything runs in one task
group; a part that fails unexpectedly takes the process with it, and another controller takes
over from what ZooKeeper holds.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import uvicorn
from fastapi import FastAPI

from admin_api.app import create_app
from admin_api.http.server import BoundedHttpProtocol
from admin_api.http.tokens import Tokens, TokensInvalid, load_tokens
from admin_api.issuer import read_issuer
from admin_api.records.rooms import RecordRooms
from admin_api.settings import ApiSettings
from controller.addresses import advertised_url, check_access, check_advertisable
from controller.audit.outbox import AuditOutbox
from controller.audit.retention import Retention
from controller.backup import commands as backup
from controller.config import OPTIONS, ConfigError, ControllerConfig, load_config
from controller.database.sql import Database
from controller.dump_image import dump_image
from controller.schema_steps import follow_levels, make_ready
from controller.shell.clock import SystemClock
from controller.shell.engine import Engine
from controller.shell.kafka_groups import KafkaGroups
from controller.shell.kafka_transactions import KafkaTransactions
from controller.shell.kazoo_access import ZooKeeperAccess
from controller.shell.listeners import TcpListeners
from controller.shell.meta import Meta
from controller.shell.published import Published
from controller.zookeeper import open_meta, read_access, secure_zookeeper
from springtide.interpreter import spare_the_loop
from springtide.log_lines import configure_logging
from springtide.service_manager import ServiceManager
from springtide.tls import KafkaTls, TlsFilesInvalid, check_server_files, client_context
from springtide.version import VERSION

if TYPE_CHECKING:
    from admin_api.http.oidc import OidcIssuer

log = logging.getLogger("controller")

#: Not a flag and not in the file: every user of the host can read a process's arguments.
TOKENS_VARIABLE: Final = "SPRINGTIDE_TOKENS"
LISTEN_BACKLOG: Final = 2_048
#: Requests still running when the controller stops get so long; polls are answered at once.
GRACEFUL_STOP_S: Final = 5
DATE_S: Final = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 0, 1 when something failed, 2 for a wrong command line or configuration."""
    chosen = _parser().parse_args(arguments)
    if chosen.command == "backup" and chosen.action == "verify":
        return backup.verify(chosen.folder)
    given = {
        option.name: getattr(chosen, option.name)
        for option in OPTIONS
        if getattr(chosen, option.name, None) is not None
    }
    try:
        config = load_config(given, os.environ, file=chosen.config)
        access = read_access(config, os.environ)
        if chosen.command == "serve":
            check_advertisable(config)
            issuer = read_issuer(config, SystemClock())
            tokens = _load_tokens(config, os.environ)
            if issuer is not None and tokens is None:
                tokens = Tokens({}, {})
            check_access(config, has_tokens=tokens is not None)
            _check_tls_files(config)
            configure_logging(config.log_level.lower(), config.log_format)
            return anyio.run(serve, config, tokens, issuer, access)
        configure_logging("error")
        if chosen.command == "backup" and chosen.action == "create":
            return backup.create(config, access, chosen.folder)
        if chosen.command == "backup":
            return backup.restore(
                config, access, chosen.folder, dry_run=chosen.dry_run, own_acls=chosen.own_acls
            )
        if chosen.command == "secure-zookeeper":
            return secure_zookeeper(config, access, opens=chosen.open)
        return anyio.run(dump_image, config, access, chosen.cluster, chosen.output)
    except ConfigError as error:
        print(f"controller: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="controller", description="Springtide's controller.")
    commands = parser.add_subparsers(dest="command", required=True)
    serve_parser = commands.add_parser(
        "serve",
        help="run a controller",
        description="Runs a controller. Each setting can also be given as an environment variable "
        "(SPRINGTIDE_ and the name in capitals) or in the file named by --config; flags win over the "
        "environment, the environment over the file.",
    )
    dump_parser = commands.add_parser(
        "dump-image",
        help="print a cluster as ZooKeeper has it",
        description="Reads one cluster from ZooKeeper, changes nothing, needs no controller, and prints it.",
    )
    dump_parser.add_argument("--cluster", required=True, help="name of the cluster")
    dump_parser.add_argument("--output", choices=("text", "json"), default="text")
    secure_parser = commands.add_parser(
        "secure-zookeeper",
        help="close what controllers keep in ZooKeeper to its other clients",
        description="Gives the root and each znode below it to the identities of --zookeeper-auth-file. "
        "Run it when every controller has them, and once more when each has been restarted since.",
    )
    secure_parser.add_argument("--open", action="store_true", help="give all of it to every client again")
    create_parser, restore_parser = _backup_parsers(commands)
    of_zookeeper = [option.name for option in OPTIONS if option.name.startswith("zookeeper")]
    for target, names in (
        (serve_parser, [option.name for option in OPTIONS]),
        (dump_parser, of_zookeeper),
        (secure_parser, of_zookeeper),
        (create_parser, [*of_zookeeper, "database_url"]),
        (restore_parser, [*of_zookeeper, "database_url"]),
    ):
        target.add_argument("--config", type=Path, metavar="FILE", help="TOML file with settings")
        for option in OPTIONS:
            if option.name not in names:
                continue
            shown = "" if option.default == "" else f" (default: {_spell(option.default)})"
            text = f"{option.help}{shown}".replace("%", "%%")
            if option.kind is bool:
                target.add_argument(
                    option.flag, dest=option.name, nargs="?", const="true", metavar="true|false", help=text
                )
            else:
                metavar = "N" if option.kind is int else "TEXT"
                target.add_argument(option.flag, dest=option.name, metavar=metavar, help=text)
    return parser


def _backup_parsers(commands: Any) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Add `backup` to the commands; return the parsers of `create` and of `restore`, which take settings."""
    about = "back up ZooKeeper and SQL, verify that backup, restore it"
    actions = commands.add_parser("backup", help=about, description=f"{about[0].upper()}{about[1:]}.")
    verbs = actions.add_subparsers(dest="action", required=True)
    create_parser = verbs.add_parser(
        "create",
        help="back up all clusters and the database",
        description="Reads all that controllers keep in ZooKeeper and the SQL database into a new folder. "
        "Controllers may run meanwhile. Name the same settings as for `serve`.",
    )
    verify_parser = verbs.add_parser(
        "verify",
        help="read a whole backup and say what it has",
        description="Reads a whole backup, without ZooKeeper and SQL, and says what it has.",
    )
    restore_parser = verbs.add_parser(
        "restore",
        help="put a backup into an empty ZooKeeper and an empty database",
        description="Puts a backup into a ZooKeeper root and a database that are both empty, while no "
        "controller runs. Brokers that know more than the backup are believed: docs/backup.md.",
    )
    restore_parser.add_argument(
        "--dry-run", action="store_true", help="check the backup, ZooKeeper and the database; change nothing"
    )
    restore_parser.add_argument(
        "--own-acls",
        action="store_true",
        help="give the znodes to the identities of --zookeeper-auth-file, not to those that they had",
    )
    for parser in (create_parser, verify_parser, restore_parser):
        parser.add_argument("folder", type=Path, help="of the backup")
    return create_parser, restore_parser


def _spell(default: str | int | bool) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)


# -- serve --


def _load_tokens(config: ControllerConfig, environment: Mapping[str, str]) -> Tokens | None:
    file = Path(config.tokens_file) if config.tokens_file else None
    try:
        tokens = load_tokens(file=file, environment=environment.get(TOKENS_VARIABLE))
    except TokensInvalid as error:
        raise ConfigError(str(error)) from error
    if tokens is not None and tokens.names_certificates and not config.client_ca:
        raise ConfigError("a line with cert: needs certificates of clients: add --client-ca")
    return tokens


def _check_tls_files(config: ControllerConfig) -> None:
    try:
        if config.tls_cert:
            check_server_files(cert=config.tls_cert, key=config.tls_key, client_ca=config.client_ca or None)
    except TlsFilesInvalid as error:
        raise ConfigError(f"--tls-cert, --tls-key, --client-ca: {error}") from error
    try:
        if config.kafka_ca or config.kafka_client_cert or config.kafka_client_key:
            client_context(
                ca=config.kafka_ca or None,
                cert=config.kafka_client_cert or None,
                key=config.kafka_client_key or None,
            )
    except TlsFilesInvalid as error:
        raise ConfigError(f"--kafka-ca, --kafka-client-cert, --kafka-client-key: {error}") from error


def _say_who_may_ask(config: ControllerConfig, tokens: Tokens | None) -> None:
    if tokens is not None:
        log.info("tokens_loaded tokens=%d", len(tokens))
        return
    log.warning(
        "NO AUTHENTICATION listen=%s who_may_administer=%s hint=%s",
        config.listen,
        "every client with a certificate of --client-ca"
        if config.client_ca
        else "every user and process of this host"
        if config.is_loopback_only
        else "every client that reaches it",
        "--tokens-file names who may",
    )


async def serve(
    config: ControllerConfig, tokens: Tokens | None, issuer: OidcIssuer | None, access: ZooKeeperAccess
) -> int:
    """Run until SIGTERM or SIGINT. Raise ConfigError when the address can't be listened on."""
    bound = _bind(config)
    url = advertised_url(config, bound_port=bound.getsockname()[1])
    _say_who_may_ask(config, tokens)
    clock = SystemClock()
    meta = open_meta(config, access)
    engine = Engine(
        meta=meta,
        clock=clock,
        random_bytes=os.urandom,
        listeners=TcpListeners(clock),
        url=url,
        options=config.options(),
        is_observer=config.observer,
    )
    store = Database.open(config.database_url)
    outbox = AuditOutbox(store, clock=engine.clock, truth=engine.truth)
    engine.attach_outbox(outbox)
    settings = ApiSettings(
        read_only=config.read_only,
        if_match_required=config.if_match_required,
        kafka_administration=config.kafka_administration,
        hsts_s=config.hsts_s,
        webhook_hosts=config.allowed_webhook_hosts,
    )
    kafka_tls = KafkaTls(config.kafka_ca, config.kafka_client_cert, config.kafka_client_key)

    def published(cluster: str) -> Published:
        return engine.cluster(cluster).published

    app = create_app(
        engine=engine,
        database=store,
        outbox=outbox,
        client_groups=KafkaGroups(published, engine.clock, tls=kafka_tls),
        client_transactions=KafkaTransactions(published, engine.clock, tls=kafka_tls),
        rooms=RecordRooms(kafka_tls),
        settings=settings,
        clock=engine.clock,
        random_bytes=os.urandom,
        tokens=tokens,
        issuer=issuer,
    )
    service = ServiceManager.of_environment(os.environ, pid=os.getpid())
    server = _Server(_uvicorn_config(app, config, settings), service)
    spare_the_loop()
    log.info("starting url=%s controller_id=%s zookeeper=%s", url, engine.controller_id, config.zookeeper)
    async with anyio.create_task_group() as outermost:
        # To the very end: a second SIGTERM while parts stop must not cut them short.
        outermost.start_soon(_stop_on_signal, engine, server, service)
        outermost.start_soon(service.keep_alive, anyio.sleep)
        async with anyio.create_task_group() as tasks:
            await tasks.start(meta.run)
            await tasks.start(engine.run)
            if issuer is not None:
                tasks.start_soon(issuer.run)
            of_sql = [outbox.run, app.state.operations.run, app.state.notifier.run]
            if config.audit_retention_days:
                retention = Retention(
                    store,
                    clock=engine.clock,
                    clusters=lambda: engine.clusters() if engine.role == "active" else (),
                    days=config.audit_retention_days,
                )
                of_sql.append(retention.run)
            tasks.start_soon(_run_on_sql, config.database_url, clock, meta, of_sql)
            await server.serve(sockets=[bound])
            engine.stand_down()
            tasks.cancel_scope.cancel()
        store.close()
        log.info("stopped")
        outermost.cancel_scope.cancel()
    return 0


class _Server(uvicorn.Server):
    """Leaves the signals to `_stop_on_signal`: the hand-over must begin with the signal, not after the last
    request. It looks whether it is to end when `stop` is called, not ten times a second."""

    def __init__(self, config: uvicorn.Config, service: ServiceManager) -> None:
        super().__init__(config)
        self._service = service
        self._stopping = anyio.Event()

    def stop(self) -> None:
        """Answer what was asked, and end; called again, end without."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        self._service.ready()
        while not await self.on_tick(0):  # sets the date of answers
            with anyio.move_on_after(DATE_S):
                await self._stopping.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _bind(config: ControllerConfig) -> socket.socket:
    """The address is ours from the start, but no client can connect before the server serves: one that asks
    one of several controllers goes on to the next at once, and a standby sees that the one before is gone."""
    host, port = config.listen_address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"cannot listen on {config.listen}: {error.strerror or error}; choose another with --listen"
        ) from error
    return bound


def _uvicorn_config(app: FastAPI, config: ControllerConfig, settings: ApiSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedHttpProtocol.bounded_by(settings, connections_max=config.connections_max),
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=[("server", f"springtide/{VERSION}")],
        timeout_keep_alive=config.keep_alive_s,
        timeout_graceful_shutdown=GRACEFUL_STOP_S,
        backlog=LISTEN_BACKLOG,
        ssl_certfile=config.tls_cert or None,
        ssl_keyfile=config.tls_key or None,
        ssl_ca_certs=config.client_ca or None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if config.client_ca else ssl.CERT_NONE,
    )


async def _run_on_sql(
    database_url: str,
    clock: SystemClock,
    meta: Meta,
    parts: Sequence[Callable[[], Coroutine[Any, Any, None]]],
) -> None:
    """Run what needs the tables, once they are there: a database that is just being made is no outage."""
    revision = await make_ready(database_url, clock)
    log.info("database_ready")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow_levels, database_url, revision, meta, clock)
        for part in parts:
            tasks.start_soon(part)


async def _stop_on_signal(engine: Engine, server: _Server, service: ServiceManager) -> None:
    """The first signal hands over and stops in order; the second stops waiting for requests."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            log.info("stopping signal=%s", signal.Signals(number).name)
            service.stopping()
            engine.stand_down()
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
