"""Captured traffic: the conversion of packets to byte streams, frames and calls (extra ``kwire[capture]``).

A call is a request with its response. ``read(paths)`` reads capture files in one process. Programs that divide the work
among processes do not use ``read``: they read parts of a file with ``splits`` and ``read_segments``, and convert the
segments of each connection to calls with ``Conversation``.
"""

from kwire.extras import missing

try:
    from kwire.capture.calls.conversation import Conversation, Row
    from kwire.capture.calls.model import Call, Connection
    from kwire.capture.files.blocks import Problem, Skipped, Split
    from kwire.capture.reading import Reading, read
    from kwire.capture.tcp.packets import read_segments, splits
    from kwire.capture.tcp.segments import Segments
except ModuleNotFoundError as error:
    raise missing(error, "capture") from error

__all__ = [
    "Call",
    "Connection",
    "Conversation",
    "Problem",
    "Reading",
    "Row",
    "Segments",
    "Skipped",
    "Split",
    "read",
    "read_segments",
    "splits",
]
