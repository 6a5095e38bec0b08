"""The SQL schema's history, as Alembic revisions. `controller.database.migrate` applies them."""
