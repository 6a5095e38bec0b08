"""Hides the secrets of a request before it is written into the audit, where rows never change.

No setting of this release holds a secret, so a request with one is refused; it is written down all the same,
with the name and without the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

HIDDEN: Final = "***"
#: Kafka's settings of the type PASSWORD, also with a listener's prefix.
_SECRET: Final = re.compile(r"password|secret|jaas|(keystore|master|private)\.key|certificate", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Return whether a setting of this name holds a secret in Kafka."""
    return _SECRET.search(name) is not None


def without_secrets(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a write's body with hidden values of secret settings: one `name` and `value`, or `configs`."""
    shown = dict(body)
    if shown.get("value") is not None and is_secret(str(shown.get("name"))):
        shown["value"] = HIDDEN
    if isinstance(configs := shown.get("configs"), Mapping):
        shown["configs"] = {
            name: HIDDEN if value is not None and is_secret(name) else value
            for name, value in configs.items()
        }
    return shown
