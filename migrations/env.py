"""Alembic's environment: uses the connection that `controller.database.schema.locked` opened and began.

The tables come with it, from `controller.database.migrate`: nothing here imports the controller.

There is no alembic.ini: the database is a setting of the controller, and `python -m
controller.database.migrate` is the command line. The transaction is the caller's, so a failed migration
leaves nothing behind, on SQLite too (its DDL is transactional once Python's driver is told to keep out of
it).
"""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=context.config.attributes["metadata"],
    transactional_ddl=True,
    render_as_batch=connection.dialect.name == "sqlite",
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
