"""The writer of frame logs: one JSON object per line and frame.

If the native engine is the default engine, it writes the lines of complete frames directly into memory.
"""

from __future__ import annotations

import json
from binascii import hexlify
from collections.abc import Callable, Sequence
from typing import TypeAlias

from kwire.engines.chosen import native_package
from kwire.frames import PREFIX

NativeLines: TypeAlias = Callable[[bytes, Sequence[bytes], memoryview], int]


def native_lines() -> NativeLines | None:
    """Return the native function that writes lines into memory; None if the native engine is not the default engine.

    ``FrameLog.write_frames`` describes the function.
    """
    native = native_package()
    function: NativeLines | None = None if native is None else native.frame_lines
    return function


class FrameLog:
    """The writer that records each frame as a line with a JSON object.

    Attributes:
        has_native_lines: whether ``write_frames`` can be used.
    """

    needs_complete_frames = True

    def __init__(self) -> None:
        self._native_lines = native_lines()
        self.has_native_lines = self._native_lines is not None
        self._ends: dict[tuple[int, bool], str] = {}  # the part of a line between the time and the hex of the frame

    def begin(self) -> bytes:
        return b""

    def opened(self, connection: int, client: str, broker: str, time_us: int) -> bytes:  # noqa: ARG002
        peers = f'"connection": "{connection}", "client": {json.dumps(client)}, "broker": {json.dumps(broker)}'
        for to_broker, direction in ((True, "request"), (False, "response")):
            self._ends[connection, to_broker] = f', {peers}, "direction": "{direction}", "hex": "'
        return b""

    def frame(self, connection: int, to_broker: bool, frame: bytes, time_us: int) -> bytes:
        return f'{{"time_us": {time_us}{self._ends[connection, to_broker]}{frame.hex()}"}}\n'.encode()

    def frames(self, connection: int, to_broker: bool, data: Sequence[bytes], time_us: int) -> list[bytes]:
        first = data[0]
        start = f'{{"time_us": {time_us}{self._ends[connection, to_broker]}'
        begin = PREFIX.size
        if len(first) > begin and begin + PREFIX.unpack_from(first)[0] == sum(map(len, data)):  # one frame
            if len(data) == 1:
                return [f'{start}{first[begin:].hex()}"}}\n'.encode()]
            rest = map(hexlify, data[1:])
            return [start.encode(), hexlify(memoryview(first)[begin:]), *rest, b'"}\n']
        stream = first if len(data) == 1 else b"".join(data)
        frames: list[bytes] = []
        at, end, read = 0, len(stream), PREFIX.unpack_from
        while at < end:
            begin = at + PREFIX.size
            at = begin + read(stream, at)[0]
            frames.append(hexlify(stream[begin:at]))
        between = f'"}}\n{start}'.encode()
        return [start.encode(), between.join(frames), b'"}\n']

    def write_frames(
        self, connection: int, to_broker: bool, data: Sequence[bytes], time_us: int, memory: memoryview
    ) -> int:
        """Write the lines that ``frames`` returns into memory, if the memory is large enough.

        Args:
            connection: number of the connection.
            to_broker: True for requests, False for responses.
            data: the argument of ``frames``.
            time_us: time of the frames, in microseconds since 1970.
            memory: writable memory. If it is too small, it is not changed.

        Returns:
            Size of all lines in bytes.
        """
        assert self._native_lines is not None
        start = f'{{"time_us": {time_us}{self._ends[connection, to_broker]}'
        return self._native_lines(start.encode(), data, memory)

    def closed(self, connection: int, time_us: int, *, reset: bool = False) -> bytes:  # noqa: ARG002
        for to_broker in (True, False):
            self._ends.pop((connection, to_broker), None)
        return b""
