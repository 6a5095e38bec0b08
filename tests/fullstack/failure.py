"""How a story says that it has ended badly."""


class Failure(Exception):
    """The run has shown something that must not be."""
