"""Examples in the OpenAPI document, beside its schemas: answers as a small cluster `prod` gives them."""
