"""Tests that join parts of the system over real sockets, files and databases."""
