"""A file with a secret in it, as one is kept."""

from __future__ import annotations

from pathlib import Path


def write_secret(file: Path, text: str) -> Path:
    """Write a file that its owner alone can read; return it."""
    file.touch(mode=0o600)
    file.chmod(0o600)
    file.write_text(text, encoding="utf-8")
    return file
