"""The SQL schema's history, as Alembic revisions. `controller.audit.migrate` applies them."""
