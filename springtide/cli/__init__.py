"""The command line of operators: a client of the REST API like any other."""
