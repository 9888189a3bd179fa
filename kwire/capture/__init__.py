"""Captured traffic: packets to byte streams to calls (extra ``kwire[capture]``).

``read(paths)`` gives what is in files, in one process. For others to build on: ``splits`` and ``read_segments`` go
through parts of a file, ``Conversation`` makes calls of the segments of one connection.
"""

from kwire.extras import missing

try:
    from kwire.capture.call import Call, Connection
    from kwire.capture.calls import Conversation, Row
    from kwire.capture.packets import Segments, read_segments, splits
    from kwire.capture.reading import Reading, read
    from kwire.capture.records import Problem, Skipped, Split
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
