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


class Guesses:
    """The parts of a capture file of about ``size`` bytes each, with guessed boundaries.

    A part is found without reading the parts before it: only the beginning of the file and the bytes at the boundaries
    of the part are read. A gzip file is one part.

    Args:
        path: path of the file.
        size: approximate size of a part, in bytes.

    Raises: OSError if the file cannot be read.
    """

    def __init__(self, path: str, size: int) -> None:
        self.path, self.size = path, size
        file = CaptureFile(path, block=65_536)
        self._first = next(file.blocks(), None)
        self._end = file.size

    def part(self, number: int) -> tuple[Split, Split | None] | None:
        """Return the part that begins in a range of bytes, and the part after it.

        ``number``: number of the range, from 0. Each range has ``size`` bytes.

        Returns: the part, and the next part without its end; for the last part, None instead of the next part. The
        whole result is None if no part begins in the range, or if the file is not a capture.
        """
        begin = self._begin(number)
        if begin is None or (number > 1 and self._begin(number - 1) == begin):
            return None
        following = number + 1
        while self._near(following) < self._end:
            then = self._begin(following)
            if then is not None and then.start > begin.start:
                return replace(begin, stop=then.start), then
            following += 1
        return begin, None

    def all(self) -> list[Split]:
        """Return all parts, in order; an empty list if the file has no readable records."""
        numbers = range(-(-self._end // self.size)) if self._first is not None else ()
        return [found[0] for number in numbers if (found := self.part(number)) is not None]

    def _near(self, number: int) -> int:
        assert self._first is not None
        split = self._first.whole
        return self._end if split.packed or self._first.then is None else split.start + number * self.size

    def _begin(self, number: int) -> Split | None:
        """Return the part that begins at the first boundary in a range, without its end; None if the range has no
        boundary.
        """
        first = self._first
        if first is None:
            return None
        if number == 0:
            return first.whole
        near = self._near(number)
        if near >= self._end or first.then is None:
            return None
        ahead = AHEAD_BLOCKS if first.whole.pcapng else AHEAD
        with open_at(self.path) as raw:
            raw.seek(near)
            data = raw.read(LOOK + ahead)
        place, _ = _search(first).next(data, 0, near + len(data) == self._end)
        return None if place is None else replace(first.then, start=near + place, time_us=UNKNOWN)


def guessed(path: str, size: int) -> list[Split]:
    """Divide a capture file into parts of about ``size`` bytes; a gzip file is one part.

    The boundaries are guessed, see ``is_proven``. Raises: OSError if a file or a folder cannot be read.
    """
    return Guesses(path, size).all()


def _search(first: Block) -> Records | Blocks:
    split = first.then or first.whole
    if split.pcapng:
        return Blocks(split.order, split.interfaces, None)
    interface = split.interfaces[0]
    return Records(split.order, interface.link, (), interface.snaplen or SNAPLEN)


def is_proven(file: CaptureFile, then: Split | None, records: int) -> bool:
    """Return whether the guessed boundary after a part is right.

    It is right if the part was read without damage, and if its last record ends where the next part begins.

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
