"""One class for each request and answer of the protocol, free of versions: see springtide/wire/fields.py."""
