"""Handling of large requests in slices: requests that contain only a part of the elements, such as partitions.

The handler is called with each slice, and the responses are merged. Other connections are served between two slices.
The handler repeats its checks for each slice: if a member is fenced between two slices, the elements of the later
slices get the error. Handlers whose response grows with the size of the cluster, such as Metadata and Fetch, are
generators themselves (``effects.Steps``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import wraps
from typing import Any, TypeAlias

from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker

Handle: TypeAlias = Callable[[Broker, Call[Any], float], Effects]
Split: TypeAlias = Callable[[Broker, Any], list[Any]]  # returns a request per slice, [] if the request is small
Merge: TypeAlias = Callable[[Any, Any], None]  # adds a response to the merged response, the first argument


def in_slices(handle: Handle, split: Split, merge: Merge) -> Handle:
    """Return a handler that divides large requests into slices. Other connections are served between two slices.

    Args:
        handle: Handler of a small request or of one slice.
        split: Function that returns the slices of a request: requests that contain only a part of the elements. It
            returns [] for a small request.
        merge: Function that adds the response to a slice (second argument) to the merged response (first argument).
    """

    @wraps(handle)
    def handle_in_slices(broker: Broker, call: Call[Any], now: float) -> Effects:
        if 0 < len(call.frame) <= broker.slice_size:  # an element has at least one byte; no frame: simulator
            return handle(broker, call, now)
        requests = split(broker, call.request)
        if len(requests) <= 1:
            return handle(broker, call, now)
        return begin(call.ticket, _handle_slices(handle, merge, broker, call, requests, now))

    return handle_in_slices


def _handle_slices(
    handle: Handle, merge: Merge, broker: Broker, call: Call[Any], requests: Sequence[Any], now: float
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


def split_by_partition(broker: Broker, request: Any) -> list[Any]:
    """Divide a request that has topics with partitions into slices.

    Return the slices: requests with ``Broker.slice_size`` partitions each.

    The result is [] if the request is not larger than one slice.
    """
    return split_partitions(request, broker.slice_size)


def split_partitions(request: Any, size: int) -> list[Any]:
    """Split a request into requests of at most ``size`` partitions each. Return [] if the request is not larger."""
    if sum(len(topic.partitions) for topic in request.topics) <= size:
        return []
    slices: list[list[Any]] = [[]]
    room = size
    for topic in request.topics:
        rest: Sequence[Any] = topic.partitions
        while rest:
            if not room:
                slices.append([])
                room = size
            slices[-1].append(copy_with(topic, partitions=rest[:room]))
            room, rest = room - len(rest[:room]), rest[room:]
    return [copy_with(request, topics=topics) for topics in slices]


def merge_topics(response: Any, more: Any) -> None:
    """Append the topics of the response ``more`` to ``response``.

    If both responses contain a topic, its partitions are merged.
    """
    for topic in more.topics:
        last = response.topics[-1] if response.topics else None
        if last is not None and _identity(last) == _identity(topic):
            last.partitions += topic.partitions
        else:
            response.topics.append(topic)


def _identity(topic: Any) -> tuple[str, Any]:
    return topic.name, getattr(topic, "topic_id", None)


def chunks(elements: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Divide a sequence into parts of at most ``size`` elements, and return the parts."""
    return [elements[start : start + size] for start in range(0, len(elements), size)]


def copy_with(request: Any, **fields: Any) -> Any:
    """Return a shallow copy of a message, with the fields in ``fields`` replaced."""
    copied = copy(request)
    for name, value in fields.items():
        setattr(copied, name, value)
    return copied
