"""The pages that browsers show: the operator's page at /, and Swagger UI at /docs."""
