"""The recorded records by partition and offset. They are the source of all responses to live Fetch requests.

A live Fetch may contain partitions that the recording contains in different requests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from copy import deepcopy
from dataclasses import field, replace
from typing import Any

from kwire.apikeys import ApiKey
from kwire.errors import WireError
from kwire.lazy_dataclass import dataclass
from kwire.messages.fetch import FetchResponse
from kwire.records import read
from mockbroker.replay.differences import NOTHING, shown
from mockbroker.replay.script import Answered

TOPIC_IDS = 13  # first version of Fetch with topic ids
MAX_LISTED = 5  # values in the text of a difference
FULL_FETCH_EPOCHS = (0, -1)  # of a request with all partitions
Place = tuple[Hashable, int]  # topic name or id, and partition


@dataclass(slots=True)
class _Entry:
    """A recorded response for one partition.

    Attributes:
        first: offset that was fetched.
        last: last offset of the records; below ``first`` if the response contains no records.
        partition: the response for the partition.
        is_used: True if the response has an error and was already sent to a live client. An error is sent only once.
    """

    first: int
    last: int
    partition: Any
    is_used: bool = False


@dataclass(slots=True)
class _Partition:
    entries: list[_Entry] = field(default_factory=list)  # with records or an error
    empty: Any = None  # the last response


class Fetches:
    """The recorded responses to Fetch requests. Responses to live Fetch requests are made from them.

    The responses never create a fetch session.

    Args:
        calls: the recorded calls, in order; only Fetch calls are used.
    """

    def __init__(self, calls: list[Answered]) -> None:
        self._partitions: dict[Place, _Partition] = defaultdict(_Partition)
        self._sessions: dict[int, dict[Place, int]] = {}
        for call in calls:
            if call.api_key == ApiKey.FETCH:
                self._learn(call)

    def response(self, request: Any, version: int) -> Any | None:
        """Return the response to a live Fetch; None if the recording has no response for one of the requested
        partitions.

        A recorded error in the response is marked as used, so that no later response contains it.

        Args:
            request: the decoded Fetch.
            version: API version of the request.
        """
        topics = []
        for topic in request.topics:
            partitions = []
            for asked in topic.partitions:
                place = (_name(topic, version), asked.partition)
                if place not in self._partitions:
                    return None
                partitions.append(_found(self._partitions[place], asked.fetch_offset))
            topics.append(FetchResponse.Topic(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions))
        return FetchResponse(responses=topics)

    def difference(self, request: Any, version: int) -> str:
        """Return the first partition of a live Fetch that no recorded Fetch has read, as text.

        Args:
            request: the decoded Fetch, for which ``response`` returns None.
            version: API version of the request.
        """
        for number, topic in enumerate(request.topics):
            name = _name(topic, version)
            known = sorted(partition for each, partition in self._partitions if each == name)
            path = f"topics[{number}]"
            if not known:
                names = sorted({each for each, _ in self._partitions if type(each) is type(name)}, key=str)
                field_name = "topic_id" if version >= TOPIC_IDS else "topic"
                return f"{path}.{field_name} is {shown(name)}, recorded {_listed(names)}"
            for at, asked in enumerate(topic.partitions):
                if asked.partition not in known:
                    return f"{path}.partitions[{at}].partition is {asked.partition}, recorded {_listed(known)}"
        raise AssertionError("the recording has all partitions")

    def _learn(self, call: Answered) -> None:
        offsets = self._offsets(call.request, call.version, call.response.session_id)
        for topic in call.response.responses:
            for answered in topic.partitions:
                place = (_name(topic, call.version), answered.partition_index)
                if place in offsets:
                    self._add(place, offsets[place], answered)

    def _add(self, place: Place, offset: int, answered: Any) -> None:
        partition = self._partitions[place]
        last = _last_offset(answered.records)
        if last is not None or answered.error_code:
            partition.entries.append(_Entry(offset, -1 if last is None else last, answered))
        if not answered.error_code:
            partition.empty = replace(answered, records=b"", aborted_transactions=None)

    def _offsets(self, request: Any, version: int, answered_id: int) -> dict[Place, int]:
        """Return the fetch offset of each partition that a recorded request fetches, directly or through its fetch
        session.

        The offsets are stored for the fetch session ``answered_id``, for the next request of this session.

        Args:
            request: the decoded Fetch.
            version: API version of the request.
            answered_id: id of the fetch session in the response; 0 for none.
        """
        is_full = version < 7 or request.session_epoch in FULL_FETCH_EPOCHS
        offsets = {} if is_full else self._sessions.get(request.session_id, {})
        for topic in request.topics:
            for asked in topic.partitions:
                offsets[_name(topic, version), asked.partition] = asked.fetch_offset
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                offsets.pop((_name(topic, version), number), None)
        if answered_id:
            self._sessions[answered_id] = offsets
        return offsets


def _name(topic: Any, version: int) -> Hashable:
    name: Hashable = topic.topic_id if version >= TOPIC_IDS else topic.topic
    return name


def _listed(values: Sequence[Hashable]) -> str:
    """Return values as text: at most MAX_LISTED of them."""
    texts = [shown(value) for value in values[:MAX_LISTED]]
    more = [f"{len(values) - MAX_LISTED} more"] if len(values) > MAX_LISTED else []
    return ", ".join([*texts, *more]) or NOTHING


def _found(partition: _Partition, offset: int) -> Any:
    """Return a copy of a recorded response for a partition: the next unused error at ``offset``, the records at
    ``offset``, or no records.

    A returned error is marked as used. If the recording has no response without records, the last response replaces it.

    Args:
        partition: the recorded responses for the partition.
        offset: the fetch offset.
    """
    for entry in partition.entries:
        if entry.partition.error_code and entry.first == offset and not entry.is_used:
            entry.is_used = True
            return deepcopy(entry.partition)
    for entry in partition.entries:
        if entry.first <= offset <= entry.last:
            return deepcopy(entry.partition)
    return deepcopy(partition.empty) if partition.empty is not None else deepcopy(partition.entries[-1].partition)


def _last_offset(records: bytes | None) -> int | None:
    last = None
    try:
        for batch in read(records):
            last = batch.last_offset
    except WireError:
        pass
    return last


def has_content(response: Any) -> bool:
    """Return whether a response has records or an error."""
    return any(part.records or part.error_code for topic in response.responses for part in topic.partitions)
