"""Handling of large requests in slices: requests that contain only a part of the elements, such as partitions.

The handler is called with each slice, and the responses are merged. Other connections are served between two slices.
The handler repeats its checks for each slice: if a member is fenced between two slices, the elements of the later
slices get the error. Handlers whose response grows with the size of the cluster, such as Metadata and Fetch, are
generators themselves (``effects.Steps``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import wraps
from itertools import chain, islice
from typing import Any, TypeAlias, TypeVar

from mockbroker.base.effects import Call, Effects, Reply, Steps, Ticket, begin
from mockbroker.broker.broker import SLICE_SIZE, Broker

DESCRIBED_BYTES = 100_000  # of descriptions in a slice; they take about 5 ms

Handle: TypeAlias = Callable[[Broker, Call[Any], float], Effects]
Split: TypeAlias = Callable[[Broker, Any], Iterable[Any]]  # yields a request per slice, none if the request is small
Described = TypeVar("Described")
E = TypeVar("E")
Merge: TypeAlias = Callable[[Any, Any], None]  # adds a response to the merged response, the first argument


def in_slices(handle: Handle, split: Split, merge: Merge) -> Handle:
    """Return a handler that divides large requests into slices. Other connections are served between two slices.

    Args:
        handle: Handler of a small request or of one slice.
        split: Function that yields the slices of a request: requests that contain only a part of the elements. It
            yields nothing for a small request. If it is a generator, each slice is made when it is needed.
        merge: Function that adds the response to a slice (second argument) to the merged response (first argument).
    """

    @wraps(handle)
    def handle_in_slices(broker: Broker, call: Call[Any], now: float) -> Effects:
        if 0 < len(call.frame) <= broker.slice_size:  # an element has at least one byte; no frame: simulator
            return handle(broker, call, now)
        slices = iter(split(broker, call.request))
        first = list(islice(slices, 2))
        if len(first) <= 1:
            return handle(broker, call, now)
        return begin(call.ticket, handle_slices(handle, merge, broker, call, chain(first, slices), now))

    return handle_in_slices


def handle_slices(
    handle: Handle, merge: Merge, broker: Broker, call: Call[Any], requests: Iterable[Any], now: float
) -> Steps:
    """Handle the slices of a request one by one, and merge their responses. Respond after the last slice.

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response or close the connection.

    Args:
        handle: Handler of one slice.
        merge: Function that adds the response to a slice (second argument) to the merged response (first argument).
        broker: The state of the cluster.
        call: The whole request.
        requests: The slices: requests that contain only a part of the elements.
        now: The broker's time in seconds.
    """
    response: Any = None
    effects: Effects = []
    for number, request in enumerate(requests):
        if number:
            now = yield effects
        effects, answered = [], False
        for effect in handle(broker, replace(call, request=request), now):
            if not (isinstance(effect, Reply) and effect.ticket is call.ticket):
                effects.append(effect)
                continue
            answered = True
            if response is None:
                response = effect.response
            else:
                merge(response, effect.response)
        if not answered:  # the request closes its connection
            return effects
    return [*effects, Reply(call.ticket, response)]


def describe_in_slices(
    broker: Broker,
    ticket: Ticket,
    keys: Sequence[str],
    describe: Callable[[str], Described],
    size: Callable[[Described], int],
    response: Callable[[list[Described]], Any],
) -> Steps:
    """Respond with the description of each key, including duplicates.

    A slice has SLICE_SIZE keys, or fewer if their descriptions have DESCRIBED_BYTES. The smaller slices of a simulation
    are not used, because its checks compare a description with the state at the time of the response. If the response
    becomes too large, the connection is closed. The last effect is the response.

    Args:
        broker: The state of the cluster.
        ticket: Identity of the request.
        keys: The keys in the request, such as group ids.
        describe: Function that returns the description of a key. It is called once for each key.
        size: Function that returns the approximate size of a description in bytes.
        response: Function that returns the response with the descriptions.
    """
    room = broker.response_room()
    descriptions: list[Described] = []
    full_at, full_at_bytes = SLICE_SIZE, DESCRIBED_BYTES
    for key in keys:
        if len(descriptions) >= full_at or room.taken >= full_at_bytes:
            yield []
            full_at, full_at_bytes = len(descriptions) + SLICE_SIZE, room.taken + DESCRIBED_BYTES
        descriptions += room.describe_each([key], describe, size)
    return [Reply(ticket, response(descriptions))]


def topics_in_slices(
    broker: Broker,
    requested: Iterable[Any],
    topic_result: Callable[[Any], Any],
    partition_results: Callable[[Any, Sequence[Any]], list[Any]],
    partitions: str = "partitions",
    results: str = "partitions",
) -> Generator[Effects, float, list[Any]]:
    """Return a topic of the response for each topic of the request, including duplicates.

    A slice has about ``Broker.slice_size`` partitions, or topics without partitions.

    Args:
        broker: The state of the cluster.
        requested: The topics of the request.
        topic_result: Function that returns the topic of the response, without partitions, for a topic of the request.
        partition_results: Function that gets a topic of the request and some of its partitions, and returns the
            partitions of the response.
        partitions: Field of a requested topic that contains its partitions.
        results: Field of a topic of the response that contains its partitions.
    """
    topics: list[Any] = []
    handled = 0
    for topic in requested:
        topics.append(topic_result(topic))
        for part in chunks(getattr(topic, partitions), broker.slice_size) or [()]:
            if handled >= broker.slice_size:
                handled = 0
                yield []
            handled += max(len(part), 1)
            getattr(topics[-1], results).extend(partition_results(topic, part))
    return topics


def split_array(field: str) -> Split:
    """Return a function that divides the array ``field`` of a request into ``Broker.slice_size`` elements per slice."""

    def split(broker: Broker, request: Any) -> list[Any]:
        return [copy_with(request, **{field: part}) for part in chunks(getattr(request, field), broker.slice_size)]

    return split


def merge_array(field: str) -> Merge:
    """Return a function that appends the array ``field`` of a response to that of the merged response."""

    def merge(response: Any, more: Any) -> None:
        getattr(response, field).extend(getattr(more, field))

    return merge


def split_by_partition(broker: Broker, request: Any) -> Iterator[Any]:
    """Divide a request that has topics with partitions into slices of ``Broker.slice_size`` partitions each.

    Yields: the slices as requests; nothing if the request is not larger than one slice.
    """
    return split_partitions(request, broker.slice_size)


def split_partitions(request: Any, size: int) -> Iterator[Any]:
    """Divide a request into requests of at most ``size`` partitions each. Yield nothing if it is not larger."""
    return (copy_with(request, topics=topics) for topics in topic_slices(request.topics, size))


def topic_slices(requested: Sequence[Any], size: int) -> Iterator[list[Any]]:
    """Divide the topics of a request into lists with at most ``size`` partitions each.

    Topics without partitions are left out.

    Yields: the lists; nothing if the topics have at most ``size`` partitions.
    """
    if sum(len(topic.partitions) for topic in requested) <= size:
        return
    part: list[Any] = []
    room = size
    for topic in requested:
        at, count = 0, len(topic.partitions)
        while at < count:
            if not room:
                yield part
                part, room = [], size
            taken = topic.partitions[at : at + room]
            part.append(topic if len(taken) == count else copy_with(topic, partitions=taken))
            room -= len(taken)
            at += len(taken)
    yield part


def merge_by_topic(field: str, identity: Callable[[Any], Any], partitions: str = "partitions") -> Merge:
    """Return a function that appends the topics of a response to those of the merged response.

    If the last topic of the merged response continues in the response, its partitions are merged.

    Args:
        field: Field of the responses that contains the topics.
        identity: Function that returns the name or the id of a topic of the response.
        partitions: Field of a topic that contains its partitions.
    """

    def merge(response: Any, more: Any) -> None:
        topics = getattr(response, field)
        for topic in getattr(more, field):
            if topics and identity(topics[-1]) == identity(topic):
                getattr(topics[-1], partitions).extend(getattr(topic, partitions))
            else:
                topics.append(topic)

    return merge


def _name_and_id(topic: Any) -> tuple[str, Any]:
    return topic.name, getattr(topic, "topic_id", None)


merge_topics = merge_by_topic("topics", _name_and_id)


def chunks(elements: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Divide a sequence into parts of at most ``size`` elements, and return the parts."""
    return [elements[start : start + size] for start in range(0, len(elements), size)]


def weighted_chunks(elements: Iterable[E], weight: Callable[[E], int], size: int) -> Iterator[list[E]]:
    """Divide elements into parts, and yield the parts. Without elements, yield one empty part.

    Args:
        elements: The elements.
        weight: Function that returns the weight of an element, at least 1. It is called when the part is made.
        size: Total weight at which a part ends; the last element of a part may exceed it.
    """
    part: list[E] = []
    total = 0
    for element in elements:
        if total >= size:
            yield part
            part, total = [], 0
        part.append(element)
        total += weight(element)
    yield part


def copy_with(request: Any, **fields: Any) -> Any:
    """Return a shallow copy of a message, with the fields in ``fields`` replaced."""
    copied = copy(request)
    for name, value in fields.items():
        setattr(copied, name, value)
    return copied
