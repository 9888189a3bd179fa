"""The recorded records by partition and offset, from which producers that form other batches get their responses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import field, replace
from typing import Any

from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from kwire.messages.produce import ProduceResponse
from mockbroker.replay.differences import records_difference
from mockbroker.replay.keys import contents
from mockbroker.replay.script import Answered

TOPIC_IDS = 13  # first version of Produce with topic ids
MAX_PLACES = 1_000  # equal recorded records that are compared with the first live record
Place = tuple[Hashable, int]  # topic name or id, and partition
Head = tuple[int, int, str | None]  # version, acks, transactional id


@dataclass(slots=True, eq=False)
class _Stored:
    """A recorded record.

    Attributes:
        content: key, value and headers.
        offset: offset of the record.
        call: the recorded Produce.
        answered: the response for the partition; None with acks=0.
        is_used: True if a live request contained this record, other than the whole ``call``.
    """

    content: Hashable
    offset: int
    call: Answered
    answered: Any
    is_used: bool = False


@dataclass(slots=True)
class _Log:
    """The recorded records of a partition.

    Attributes:
        records: the records, in order of their offsets.
        places: indexes in ``records``, by content.
        begin: number of records at the beginning of ``records`` that are all used.
    """

    records: list[_Stored] = field(default_factory=list)
    places: dict[Hashable, list[int]] = field(default_factory=lambda: defaultdict(list))
    begin: int = 0


class ProducedRecords:
    """The recorded records. A live Produce gets a response if its records are recorded in the same order, without other
    records between them, in requests that succeeded.

    Args:
        calls: the recorded calls, in order; only Produce calls are used.
    """

    def __init__(self, calls: list[Answered]) -> None:
        self._calls = [call for call in calls if call.api_key == ApiKey.PRODUCE]
        self._partly: set[int] = set()  # objects in _calls of which some records are used
        self._logs: dict[Head, dict[Place, _Log]] | None = None

    def response(self, request: Any, version: int) -> tuple[Any, float] | None:
        """Return the response to a live Produce, and its latency in seconds; None if the recording does not have its
        records.

        The records then count as used.

        Args:
            request: the decoded Produce.
            version: API version of the request.
        """
        logs = self._of(request, version)
        found: dict[Place, list[_Stored]] = {}
        for _, place, wanted in _partitions(request, version):
            run = self._run(logs[place], wanted, used=False) if place in logs else []
            if not isinstance(wanted, tuple) or not wanted or len(run) < len(wanted) or place in found:
                return None
            found[place] = run
        if not found:
            return None
        for stored in (each for run in found.values() for each in run):
            self._use(stored)
        return _response(request, version, found), max(run[0].call.latency for run in found.values())

    def has_records(self, request: Any, version: int) -> bool:
        """Return whether all records of a live Produce are recorded, also if they are used.

        Args:
            request: the decoded Produce.
            version: API version of the request.
        """
        logs = self._of(request, version)
        return all(
            isinstance(wanted, tuple)
            and place in logs
            and len(self._run(logs[place], wanted, used=True)) == len(wanted)
            for _, place, wanted in _partitions(request, version)
        )

    def difference(self, request: Any, version: int) -> str | None:
        """Return the first difference between the records of a live Produce and the recorded records, as text; None if
        the difference is not in the records.

        Args:
            request: the decoded Produce.
            version: API version of the request.
        """
        logs = self._of(request, version)
        for path, place, wanted in _partitions(request, version):
            if not isinstance(wanted, tuple) or place not in logs:
                return None
            log = logs[place]
            run = self._run(log, wanted, used=False)
            if len(run) < len(wanted):
                at = log.records.index(run[-1]) + 1 if run else self._begin(log)
                recorded = tuple(each.content for each in log.records[at : at + 1])
                if run and recorded == (wanted[len(run)],) and log.records[at].offset != run[-1].offset + 1:
                    offsets = (
                        f"offset {log.records[at].offset}, after the offset {run[-1].offset} of the record before it"
                    )
                    return f"{path}[{len(run)}] was stored at {offsets}"
                return next(records_difference(path, wanted[len(run) : len(run) + 1], recorded, len(run)), None)
        return None

    def _of(self, request: Any, version: int) -> dict[Place, _Log]:
        if self._logs is None:
            self._logs = defaultdict(dict)
            for call in self._calls:
                self._learn(call, self._logs[_head(call.request, call.version)])
            for logs in self._logs.values():
                for log in logs.values():
                    _sort(log)
        return self._logs.get(_head(request, version), {})

    @staticmethod
    def _learn(call: Answered, logs: dict[Place, _Log]) -> None:
        answers = {
            (_name(topic, call.version), part.index): part
            for topic in call.response.responses
            for part in topic.partition_responses
        }
        for _, place, found in _partitions(call.request, call.version):
            answered, log = answers.get(place), logs.setdefault(place, _Log())
            offset = len(log.records) if call.request.acks == 0 else -1
            if answered is not None and not answered.error_code:
                offset = answered.base_offset
            if offset >= 0 and isinstance(found, tuple):
                log.records += [_Stored(each, offset + at, call, answered) for at, each in enumerate(found)]

    def _is_used(self, stored: _Stored) -> bool:
        return stored.is_used or (stored.call.is_used and id(stored.call) not in self._partly)

    def _use(self, stored: _Stored) -> None:
        stored.is_used = True
        if not stored.call.is_used:
            stored.call.is_used = True
            self._partly.add(id(stored.call))

    def _begin(self, log: _Log) -> int:
        while log.begin < len(log.records) and self._is_used(log.records[log.begin]):
            log.begin += 1
        return log.begin

    def _run(self, log: _Log, wanted: Hashable, *, used: bool) -> list[_Stored]:
        """Return the recorded records that are equal to the first live records: as many as possible, with consecutive
        offsets.

        Args:
            log: the recorded records of the partition.
            wanted: contents of the live records.
            used: True to include records that are used.
        """
        if not isinstance(wanted, tuple) or not wanted:
            return []
        best: list[_Stored] = []
        for at in (self._begin(log), *log.places.get(wanted[0], ())[:MAX_PLACES]):
            run = self._run_at(log, at, wanted, used)
            best = max(best, run, key=len)
            if len(best) == len(wanted):
                break
        return best

    def _run_at(self, log: _Log, at: int, wanted: tuple[Hashable, ...], used: bool) -> list[_Stored]:
        run: list[_Stored] = []
        for stored, content in zip(log.records[at : at + len(wanted)], wanted, strict=False):
            is_next = not run or stored.offset == run[-1].offset + 1
            if stored.content != content or not is_next or (not used and self._is_used(stored)):
                break
            run.append(stored)
        return run


def _sort(log: _Log) -> None:
    """Put the records in order of their offsets. A batch that was sent twice is in the log once."""
    log.records = sorted({each.offset: each for each in reversed(log.records)}.values(), key=lambda each: each.offset)
    for at, each in enumerate(log.records):
        log.places[each.content].append(at)


def _head(request: Any, version: int) -> Head:
    return version, request.acks, request.transactional_id


def _name(topic: Any, version: int) -> Hashable:
    name: Hashable = topic.topic_id if version >= TOPIC_IDS else topic.name
    return name


def _partitions(request: Any, version: int) -> Iterator[tuple[str, Place, Hashable]]:
    """Yield the path of the records, topic and partition, and the contents of the records, for each partition of a
    Produce.
    """
    for number, topic in enumerate(request.topic_data):
        for at, part in enumerate(topic.partition_data):
            path = f"topic_data[{number}].partition_data[{at}].records"
            yield path, (_name(topic, version), part.index), contents(part.records)


def _response(request: Any, version: int, found: dict[Place, list[_Stored]]) -> Any:
    topics = []
    for topic in request.topic_data:
        partitions = []
        for part in topic.partition_data:
            first = found[_name(topic, version), part.index][0]
            if first.answered is not None:
                partitions.append(replace(first.answered, base_offset=first.offset))
        topics.append(ProduceResponse.Topic(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions))
    return ProduceResponse(responses=topics)
