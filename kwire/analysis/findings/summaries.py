"""Bounded summaries of the calls of a client or of a transactional producer, from which detectors derive findings.

A stream does not keep all call counts and steps of a client or producer. It keeps a summary for each detector, of the
rows up to a time. Each detector has a function ``sum_up`` that adds later rows to a summary. A capture that is read at
once uses the same function, with all rows and no earlier summary. So the findings are the same in both cases. A summary
depends on the thresholds of its detector; the stream begins again with all rows when they change. The functions do not
change an earlier summary. All times are microseconds since 1970.
"""

from __future__ import annotations

from dataclasses import field

from kwire.analysis.findings.observations import Step
from kwire.lazy_dataclass import dataclass


@dataclass(slots=True)
class Occurrences:
    """A number of calls or responses, and the time in which they occurred.

    Attributes:
        count: their number; for throttled calls, the sum of the throttle times in ms.
        begin: time of the first.
        end: time of the last.
    """

    count: int = 0
    begin: int = 2**62
    end: int = -1

    def plus(self, count: int, begin: int, end: int) -> Occurrences:
        """Return the occurrences with more of them."""
        return Occurrences(self.count + count, min(self.begin, begin), max(self.end, end))


@dataclass(slots=True)
class ErrorCount:
    """The responses of one API with one error code.

    Attributes:
        seen: the responses.
        calls: calls of the API in removed windows from the first to the last of them.
        later: calls of the API in removed windows after the last of them.
    """

    seen: Occurrences = field(default_factory=Occurrences)
    calls: int = 0
    later: int = 0


@dataclass(slots=True)
class ErrorCounts:
    """The errors in responses to a client.

    Attributes:
        codes: responses by API key and error code.
        windows: windows in which calls of an API were counted: API key, time of the first request, time of the last
            response, and number of calls. Windows before the first error, and windows that ``codes`` includes, are
            removed.
    """

    codes: dict[tuple[int, int], ErrorCount] = field(default_factory=dict)
    windows: list[tuple[int, int, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Throttled:
    """The throttled calls of a client.

    Attributes:
        total: sum of the throttle times in ms, and the time in which the calls occurred.
        apis: sorted keys of their APIs.
    """

    total: Occurrences = field(default_factory=Occurrences)
    apis: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ReconnectLoop:
    """The most short connections of a client within the time that the detector examines.

    Attributes:
        seen: number of these connections, begin of the first, and end of the last.
        longest: longest duration of one of them, in microseconds.
        connections: ids of the first of them.
        recent: the latest short connections, which later ones may continue: begin, connection id and end.
    """

    seen: Occurrences = field(default_factory=Occurrences)
    longest: int = 0
    connections: list[str] = field(default_factory=list)
    recent: list[tuple[int, str, int]] = field(default_factory=list)


@dataclass(slots=True)
class Fenced:
    """The requests of a transactional id that failed because their producer was fenced.

    Attributes:
        count: number of these requests.
        first: the first of them; None if there is none.
        end: time of the last of them.
        calls: connection and number of the first calls.
        started: the last start of a producer (InitProducerId) up to ``first``; None if there is none.
    """

    count: int = 0
    first: Step | None = None
    end: int = -1
    calls: list[tuple[str, int]] = field(default_factory=list)
    started: Step | None = None


@dataclass(slots=True)
class LongTransactions:
    """The transactions of a transactional id that were open for too long, and the one that is still open.

    Attributes:
        ended: long transactions that have ended: first step, last step, and timeout in ms.
        timeout: transaction timeout in ms, of the latest InitProducerId.
        opened: step that began the open transaction; None if no transaction is open.
        still: since then, the last packet of a connection that is still open; None if there is none.
        last: since then, the last other step of the producer; None if there is none.
    """

    ended: list[tuple[Step, Step, float]] = field(default_factory=list)
    timeout: float = 0
    opened: Step | None = None
    still: Step | None = None
    last: Step | None = None
