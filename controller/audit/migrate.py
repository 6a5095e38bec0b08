"""Brings the database to the schema this release needs: `upgrade(database_url)` at the controller's start.

Several controllers may start at once, so the whole of it runs in one transaction behind a lock; who comes
second finds nothing to do. Also a command line: `python -m controller.audit.migrate --help`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import migrations
from controller.audit.store import create_sql_engine

#: Any number that nobody else in the database uses: "springtide" on a telephone's keys.
_POSTGRES_LOCK = 7777464843


def upgrade(database_url: str, revision: str = "head") -> None:
    """Blocking. Creates what is missing; an up-to-date database is left alone."""
    _run(database_url, lambda config: command.upgrade(config, revision))


def downgrade(database_url: str, revision: str) -> None:
    """Blocking. Takes the schema back to `revision` (`base`: nothing). Data of later revisions is lost."""
    _run(database_url, lambda config: command.downgrade(config, revision))


def current_revision(database_url: str) -> str | None:
    engine = create_sql_engine(database_url)
    try:
        with engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    finally:
        engine.dispose()


def script_directory() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    config = Config()
    # Found as the package it is installed as, never by the working directory.
    folder = next(iter(migrations.__path__))
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    config.set_main_option("path_separator", "os")
    return config


def _run(database_url: str, action: Callable[[Config], object]) -> None:
    engine = create_sql_engine(database_url)
    try:
        with engine.execution_options(springtide_write=True).begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_POSTGRES_LOCK)))
                connection.execute(sa.text("set local statement_timeout = 0"))
            config = _config()
            config.attributes["connection"] = connection
            action(config)
    finally:
        engine.dispose()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m controller.audit.migrate", description=__doc__)
    parser.add_argument("--database-url", required=True)
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("current", help="print the database's revision")
    for name in ("upgrade", "downgrade"):
        action = actions.add_parser(name)
        action.add_argument("revision", nargs="?" if name == "upgrade" else None, default="head")
    new = actions.add_parser(
        "revision", help="write a new revision from what the tables say and the database lacks"
    )
    new.add_argument("id")
    new.add_argument("message")
    chosen = parser.parse_args(arguments)
    match chosen.action:
        case "current":
            print(current_revision(chosen.database_url))
        case "upgrade":
            upgrade(chosen.database_url, chosen.revision)
        case "downgrade":
            downgrade(chosen.database_url, chosen.revision)
        case "revision":
            _run(
                chosen.database_url,
                lambda config: command.revision(
                    config, message=chosen.message, rev_id=chosen.id, autogenerate=True
                ),
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
