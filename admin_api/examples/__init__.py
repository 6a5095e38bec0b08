"""What the OpenAPI document shows beside its schemas: answers as a small cluster `prod` gives them."""
