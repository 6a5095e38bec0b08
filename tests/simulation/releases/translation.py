"""Values of one release as values of the other: the same names and fields, in the other's classes.

It is for what no process ever sends: what the simulated operator and clients ask, what a disk holds, what the
oracle looks at. What processes say to each other goes as bytes (crossing.py).
"""

from __future__ import annotations

import copyreg
import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable
from enum import Enum, auto
from functools import cache
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any

import msgspec

from tests.simulation.network import Unreadable
from tests.simulation.releases.source import PACKAGES, PREFIX, WORLD, last


class Release(Enum):
    THIS = auto()
    LAST = auto()

    def module(self, name: str) -> Any:
        """Return a module of this release, by the name that it has in the sources."""
        return last(name) if self is Release.LAST else __import__(name, fromlist=["*"])


def release_of(kind: type) -> Release | None:
    """Return the release that a class is of; None: it is of both, or of neither."""
    package = kind.__module__.partition(".")[0]
    if package.startswith(PREFIX) and package.removeprefix(PREFIX) in PACKAGES:
        return Release.LAST
    return Release.THIS if package in PACKAGES and kind.__module__ not in WORLD else None


@cache
def class_in(kind: Hashable, release: Release) -> Any:
    """Return the class of the same name in that release. Raise Unreadable."""
    assert isinstance(kind, type)
    module = kind.__module__.removeprefix(PREFIX)
    try:
        found: Any = release.module(module)
        for name in kind.__qualname__.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise Unreadable(f"the {release.name.lower()} release has no {module}.{kind.__qualname__}") from error
    return found


_PLAIN = (str, int, float, bytes, bool, type(None), memoryview, bytearray, type)
_CALLS = (FunctionType, MethodType, BuiltinFunctionType)


def translated(value: Any, release: Release, *, objects: bool = False) -> Any:
    """Return the value in the classes of that release.

    objects: those that are no values (a log, its epochs) are copied, attribute by attribute; else they are
    passed on as they are. Fields that the other release does not have are dropped, those that it has more
    get their defaults. Raise Unreadable.
    """
    return _Translation(release, objects).of(value)


class _Translation:
    def __init__(self, release: Release, objects: bool) -> None:
        self.release = release
        self.objects = objects
        self._copied: dict[int, tuple[Any, Any]] = {}

    def of(self, value: Any) -> Any:
        kind: Any = type(value)
        if kind in _PLAIN or kind in _CALLS:
            return value
        own = release_of(kind)
        if isinstance(value, Enum):
            return value if own in (None, self.release) else self._member(value)
        if kind in _CONTAINERS:
            return _CONTAINERS[kind](self, value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            target = kind if own is None else class_in(kind, self.release)
            known = target._fields
            given = {name: self.of(getattr(value, name)) for name in value._fields if name in known}
            return target(**given)
        if own in (None, self.release):
            return value
        target = class_in(kind, self.release)
        if isinstance(value, msgspec.Struct):
            known = target.__struct_fields__
            return target(
                **{name: self.of(getattr(value, name)) for name in value.__struct_fields__ if name in known}
            )
        if hasattr(kind, "__dataclass_params__") and kind.__dataclass_params__.frozen:
            known = {field.name for field in dataclasses.fields(target)}
            return target(**{n: self.of(getattr(value, n)) for n in _names(value) if n in known})
        if isinstance(value, dict) or self.objects:
            return self._copy(value, target)
        return value

    def _member(self, value: Enum) -> Any:
        try:
            target: Any = class_in(type(value), self.release)
        except Unreadable:
            if isinstance(value, int):
                return int(value)  # a number on the wire, which has no name there
            raise
        try:
            return target[value.name]
        except KeyError as error:
            raise Unreadable(f"{target.__qualname__} has no {value.name} there") from error

    def _copy(self, value: Any, target: Any) -> Any:
        if id(value) in self._copied:
            return self._copied[id(value)][1]
        try:
            other = target()  # so that it has what the other release has more
        except TypeError:
            other = target.__new__(target)
        self._copied[id(value)] = (value, other)
        if isinstance(value, dict):
            other.update({self.of(key): self.of(item) for key, item in value.items()})
        known = _slots(target)
        for name in _names(value):
            if hasattr(other, "__dict__") or name in known:
                setattr(other, name, self.of(getattr(value, name)))
        return other


def _slots(kind: type) -> set[str]:
    return {name for base in kind.__mro__ for name in copyreg._slotnames(base) or ()}  # type: ignore[attr-defined]


def _names(value: Any) -> list[str]:
    """Return the names of the attributes that are set."""
    slots = [name for name in sorted(_slots(type(value))) if hasattr(value, name)]
    return [*slots, *getattr(value, "__dict__", ())]


def _of_mapping(walk: _Translation, value: Any) -> Any:
    return type(value)({walk.of(key): walk.of(item) for key, item in value.items()})


def _of_default(walk: _Translation, value: defaultdict[Any, Any]) -> Any:
    return defaultdict(value.default_factory, {walk.of(key): walk.of(item) for key, item in value.items()})


def _of_sequence(walk: _Translation, value: Any) -> Any:
    return type(value)([walk.of(item) for item in value])


_CONTAINERS: dict[type, Callable[[_Translation, Any], Any]] = {
    dict: _of_mapping,
    OrderedDict: _of_mapping,
    MappingProxyType: _of_mapping,
    defaultdict: _of_default,
    list: _of_sequence,
    tuple: _of_sequence,
    set: _of_sequence,
    frozenset: _of_sequence,
    deque: _of_sequence,
}
