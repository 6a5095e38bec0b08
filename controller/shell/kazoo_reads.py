"""Many znodes read by one request (ZOOKEEPER-1644, multiRead), which kazoo does not know.

A cluster of 100,000 partitions is tens of thousands of znodes, and a request costs kazoo a tenth of a
millisecond. ZooKeeper answers each read by itself: a znode that is not there spoils no other's answer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from kazoo.exceptions import EXCEPTIONS, KazooException, NoNodeError
from kazoo.protocol.states import ZnodeStat

from controller.shell.kazoo_answers import node_of
from controller.shell.meta import Node

_GET_DATA: Final = 4
_MULTI_READ: Final = 22
_FAILED: Final = -1
#: Of each operation and result: its type, whether the list ends here, an error code.
_HEADER: Final = struct.Struct("!i?i")
_INT: Final = struct.Struct("!i")
_STAT: Final = struct.Struct("!qqqqiiiqiiq")


class MultiRead:
    """A request as kazoo sends them. paths: absolute."""

    type: ClassVar = _MULTI_READ

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytearray:
        request = bytearray()
        for path in self._paths:
            name = path.encode()
            request += _HEADER.pack(_GET_DATA, False, -1) + _INT.pack(len(name)) + name
            request.append(False)  # no watch
        return request + _HEADER.pack(-1, True, -1)

    def deserialize(self, answer: bytes, offset: int) -> list[Node | None] | KazooException:
        """Return the znodes in the order of the paths, None where there is none; the error if one can't be
        read."""
        nodes: list[Node | None] = []
        while True:
            kind, is_end, _ = _HEADER.unpack_from(answer, offset)
            offset += _HEADER.size
            if is_end:
                return nodes
            (number,) = _INT.unpack_from(answer, offset)
            offset += _INT.size
            if kind == _FAILED:
                if number != NoNodeError.code:
                    error: KazooException = EXCEPTIONS[number]()
                    return error
                nodes.append(None)
                continue
            end = offset + max(number, 0)  # -1: no bytes at all
            stat: Any = ZnodeStat._make(_STAT.unpack_from(answer, end))
            nodes.append(node_of((answer[offset:end], stat)))
            offset = end + _STAT.size
