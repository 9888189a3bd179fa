"""Division of large captures into parts without reading them completely.

The boundaries are guessed: a boundary is a position at which several consecutive records are plausible. A guess may be
wrong, for example if the captured traffic itself contains a capture. Therefore each part is verified: the first part
begins at the start of the file, and reading a part completely shows where the next part must begin. If no part reports
an error, all boundaries are right (``is_proven``).
"""

from __future__ import annotations

from dataclasses import replace

from kwire.capture.files.blocks import CUT, Block, Problem, Split
from kwire.capture.files.capture_file import PASSED, CaptureFile
from kwire.capture.files.file_systems import open_at
from kwire.capture.files.pcap import BEFORE
from kwire.capture.files.salvage import AHEAD, AHEAD_BLOCKS, Blocks, Records
from kwire.capture.limits import SNAPLEN

NOT_PROVEN = "no record ends where the next part begins"
LOOK = 1024 * 1024  # bytes searched for a boundary
UNKNOWN = -1  # time of the packet before a part, if not known


def guessed(path: str, size: int) -> list[Split]:
    """Divide a capture file into parts of about ``size`` bytes; a gzip file is one part.

    The boundaries are guessed, see ``is_proven``. Raises: OSError if a file or a folder cannot be read.
    """
    file = CaptureFile(path, block=65_536)
    first = next(file.blocks(), None)
    if first is None:
        return []
    begin, end = first.whole, file.size
    if begin.packed or first.then is None:
        return [begin]
    parts: list[Split] = []
    search = _search(first)
    ahead = AHEAD_BLOCKS if begin.pcapng else AHEAD
    with open_at(path) as raw:
        for near in range(begin.start + size, end, size):
            if near <= begin.start:
                continue
            raw.seek(near)
            data = raw.read(LOOK + ahead)
            place, _ = search.next(data, 0, near + len(data) == end)
            if place is not None:
                parts.append(replace(begin, stop=near + place))
                begin = replace(first.then, start=near + place, time_us=UNKNOWN)
    return [*parts, begin]


def _search(first: Block) -> Records | Blocks:
    split = first.then or first.whole
    if split.pcapng:
        return Blocks(split.order, split.interfaces, None)
    interface = split.interfaces[0]
    return Records(split.order, interface.link, (), interface.snaplen or SNAPLEN)


def is_proven(file: CaptureFile, then: Split | None, records: int) -> bool:
    """Return whether the boundary after a part is right, that is, the part was read without damage and ends where the
    next one begins.

    Args:
        file: file, after the part was read.
        then: next part; None for the last part, which may be truncated.
        records: number of records in the part.
    """
    if then is None:
        return all(_is_truncated(problem) and records >= BEFORE for problem in file.problems)
    reached = file.reached
    return not file.problems and reached is not None and replace(reached, stop=then.stop, time_us=then.time_us) == then


def _is_truncated(problem: Problem) -> bool:
    """Return whether the problem is only that the last record of the file is truncated."""
    return problem.reason.startswith(CUT) and PASSED not in problem.reason
