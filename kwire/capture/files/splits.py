"""Splitting large captures without reading them: boundaries are guessed, and the reader of each part verifies the next
one.

A guess is a position from which several records follow each other, which can be wrong if the captured traffic contains
a capture. But the first part has an exact start, and a part that was read to its end shows whether the next one begins
there; so all guesses are right if no reader reports otherwise (``is_proven``).
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
    """Return a capture in parts of about ``size`` bytes; a gzip file is one part. Raises: OSError."""
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
    """True if a part was read as a part with an exact start would have been: without damage, and up to the start of the
    next part.

    Args:
        file: file after the part was read.
        then: next part; None for the last part, which may be truncated.
        records: number of records in the part.
    """
    if then is None:
        return all(_is_cut(problem) and records >= BEFORE for problem in file.problems)
    reached = file.reached
    return not file.problems and reached is not None and replace(reached, stop=then.stop, time_us=then.time_us) == then


def _is_cut(problem: Problem) -> bool:
    """True if only the last record is truncated."""
    return problem.reason.startswith(CUT) and PASSED not in problem.reason
