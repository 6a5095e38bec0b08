"""One revision a file; each does one thing, and the release before it can still run beside it."""
