"""Requests that name so much that they are handled in slices, between which other connections are served.

A slice is a request of its own to the handler, with some of the topics; the responses are put together. So each slice
is checked again: a member that is fenced in the middle has its error for what comes after.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from kwire.messages.create_topics import CREATE_TOPICS, CreateTopicsRequest
from kwire.messages.delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from kwire.messages.describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    DescribeUserScramCredentialsRequest,
)
from kwire.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequest
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.base.settings import MAX_NEW_PARTITIONS, Settings

SLICED_FROM = 1_024  # bytes of a request; one with fewer names little


@dataclass(frozen=True, slots=True)
class Slicing:
    """How requests of an API are cut.

    size: how much a slice names; it takes about 10 ms
    cut: the requests of the slices; one or none if the request is to be handled at once
    add: puts a response after those before
    """

    size: int
    cut: Callable[[Any, int, Settings], list[Any]]
    add: Callable[[Any, Any], None]


class Sliced:
    """A request that is handled in slices. ``response``: what the slices so far were answered."""

    def __init__(self, call: Call[Any], requests: Sequence[Any], add: Callable[[Any, Any], None]) -> None:
        self.response: Any = None
        self._call = call
        self._requests = deque(requests)
        self._add = add

    @classmethod
    def of(cls, call: Call[Any], settings: Settings) -> Sliced | None:
        """None for a request that is handled at once, as nearly all are."""
        slicing = SLICINGS.get(call.ticket.api_key)
        if slicing is None:
            return None
        requests = slicing.cut(call.request, slicing.size, settings)
        return cls(call, requests, slicing.add) if len(requests) > 1 else None

    @property
    def remain(self) -> bool:
        """True while slices remain."""
        return bool(self._requests)

    def next_call(self) -> Call[Any]:
        """The next slice, as a request for the handler."""
        return replace(self._call, request=self._requests.popleft())

    def collected(self, effects: Effects) -> Effects:
        """Keep the response of a slice; the other effects."""
        others: Effects = []
        for effect in effects:
            if isinstance(effect, Reply) and effect.ticket is self._call.ticket:
                if self.response is None:
                    self.response = effect.response
                else:
                    self._add(self.response, effect.response)
            else:
                others.append(effect)
        return others


def _parts(elements: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [elements[at : at + size] for at in range(0, len(elements), size)]


def _with(request: Any, **fields: Any) -> Any:
    """A copy of a request with other values of some fields."""
    found = copy(request)
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def _cut_commit(request: OffsetCommitRequest, size: int, _: Settings) -> list[OffsetCommitRequest]:
    """By partitions."""
    if sum(len(topic.partitions) for topic in request.topics) <= size:
        return []
    found: list[list[OffsetCommitRequest.Topic]] = [[]]
    room = size
    for topic in request.topics:
        rest: Sequence[OffsetCommitRequest.Topic.Partition] = topic.partitions
        while rest:
            if not room:
                found.append([])
                room = size
            found[-1].append(_with(topic, partitions=rest[:room]))
            room, rest = room - len(rest[:room]), rest[room:]
    return [_with(request, topics=topics) for topics in found]


def _add_commit(response: Any, more: Any) -> None:
    """A topic whose partitions are in several slices is one in the response."""
    for topic in more.topics:
        last = response.topics[-1] if response.topics else None
        if last is not None and (last.name, last.topic_id) == (topic.name, topic.topic_id):
            last.partitions += topic.partitions
        else:
            response.topics.append(topic)


def _cut_creation(request: CreateTopicsRequest, size: int, settings: Settings) -> list[CreateTopicsRequest]:
    """By topics; not where the handler looks at all of them, as for names that are given twice."""
    if len(request.topics) <= size:
        return []
    wanted = [
        len(topic.assignments) or (settings.num_partitions if topic.num_partitions < 0 else topic.num_partitions)
        for topic in request.topics
    ]
    if sum(wanted) > MAX_NEW_PARTITIONS or len({topic.name for topic in request.topics}) < len(request.topics):
        return []
    return [_with(request, topics=topics) for topics in _parts(request.topics, size)]


def _add_creation(response: Any, more: Any) -> None:
    response.topics += more.topics


def _cut_deletion(request: DeleteTopicsRequest, size: int, _: Settings) -> list[DeleteTopicsRequest]:
    """By topics, of requests that name each once, and either all by name or all by id."""
    topics, names = request.topics, request.topic_names
    if max(len(topics), len(names)) <= size:
        return []
    kinds = {topic.name is None for topic in topics}
    if len({(topic.name, topic.topic_id) for topic in topics}) < len(topics) or len(kinds) > 1:
        return []
    if len(set(names)) < len(names):
        return []
    return [_with(request, topic_names=part) for part in _parts(names, size)] or [
        _with(request, topics=part) for part in _parts(topics, size)
    ]


def _add_deletion(response: Any, more: Any) -> None:
    response.responses += more.responses


def _cut_users(
    request: DescribeUserScramCredentialsRequest, size: int, _: Settings
) -> list[DescribeUserScramCredentialsRequest]:
    users = request.users or []
    if len(users) <= size:
        return []
    if len({user.name for user in users}) < len(users):
        return []
    return [_with(request, users=part) for part in _parts(users, size)]


def _add_users(response: Any, more: Any) -> None:
    response.results += more.results


SLICINGS: Mapping[int, Slicing] = {
    OFFSET_COMMIT.key: Slicing(1_000, _cut_commit, _add_commit),
    CREATE_TOPICS.key: Slicing(50, _cut_creation, _add_creation),
    DELETE_TOPICS.key: Slicing(1_000, _cut_deletion, _add_deletion),
    DESCRIBE_USER_SCRAM_CREDENTIALS.key: Slicing(2_000, _cut_users, _add_users),
}
