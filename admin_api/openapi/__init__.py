"""The OpenAPI document: what the routes do not say of themselves, the examples, and the committed file."""
