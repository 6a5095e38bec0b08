"""Takes the database from one revision to another with Alembic, each time whole or not at all.

A command line, `python -m controller.database.migrate --help`; controllers bring their database up to date by
themselves when they start (`controller.database.schema`).
"""

from __future__ import annotations

import argparse
import os
import sys

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError

import migrations
from controller.database.schema import MigrationFailed, locked, revision_of
from controller.database.sql import create_sql_engine
from controller.database.tables import metadata
from springtide.secret_places import has_password


def upgrade(database_url: str, revision: str = "head") -> None:
    """Bring the database up to date, blocking: create what is missing. Raise MigrationFailed."""
    with locked(database_url) as connection:
        upgrade_within(connection, revision)


def upgrade_within(connection: sa.Connection, revision: str) -> None:
    """The transaction is the caller's."""
    try:
        command.upgrade(_config(connection), revision)
    except CommandError as error:
        raise MigrationFailed(str(error)) from error


def downgrade(database_url: str, revision: str) -> None:
    """Blocking. Takes the schema back to `revision` (`base`: nothing). Data of later revisions is lost."""
    with locked(database_url) as connection:
        command.downgrade(_config(connection), revision)


def current_revision(database_url: str) -> str | None:
    engine = create_sql_engine(database_url)
    try:
        with engine.connect() as connection:
            return revision_of(connection)
    finally:
        engine.dispose()


def _config(connection: sa.Connection | None) -> Config:
    config = Config()
    # Found as the package it is installed as, never by the working directory.
    folder = next(iter(migrations.__path__))
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    config.attributes["metadata"] = metadata
    return config


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m controller.database.migrate", description=__doc__)
    variable = os.environ.get("SPRINGTIDE_DATABASE_URL")
    parser.add_argument(
        "--database-url",
        default=variable,
        required=variable is None,
        help="default, and the place for one with a password: the variable SPRINGTIDE_DATABASE_URL",
    )
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
    if chosen.database_url != variable and has_password(chosen.database_url):
        parser.error("--database-url has a password in it: give it in SPRINGTIDE_DATABASE_URL")
    match chosen.action:
        case "current":
            print(current_revision(chosen.database_url))
        case "upgrade":
            upgrade(chosen.database_url, chosen.revision)
        case "downgrade":
            downgrade(chosen.database_url, chosen.revision)
        case "revision":
            with locked(chosen.database_url) as connection:
                config = _config(connection)
                command.revision(config, message=chosen.message, rev_id=chosen.id, autogenerate=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
