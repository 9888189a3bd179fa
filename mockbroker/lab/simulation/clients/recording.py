"""Callbacks that add commits and lookups of offsets to the history of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mockbroker.lab.simulation.clients.client import Client
from mockbroker.lab.simulation.history import OffsetOperation, Result

Then = Callable[..., None]


def recording_commit(client: Client, request: Any, then: Then) -> Then:
    """Add an OffsetCommit to the history.

    Return a callback that records the result of the commit and then calls ``then``.

    Args:
        client: client that sends the request; the commits are added to the history of this client's run.
        request: body of the OffsetCommit.
        then: function that handles the response body.
    """
    operations = {
        (topic.name, p.partition_index): OffsetOperation(
            request.group_id, (topic.name, p.partition_index), p.committed_offset, True, client.queue.now
        )
        for topic in request.topics
        for p in topic.partitions
    }
    client.history.offsets += operations.values()

    def committed(answer: Any) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                each = operations[topic.name, partition.partition_index]
                each.result = Result.REFUSED if partition.error_code else Result.DONE
                each.done_at = client.queue.now
        then(answer)

    return committed


def recording_lookup(client: Client, then: Then) -> Then:
    """Return a callback that records the offsets of an OffsetFetch response in the history and then calls ``then``.

    Args:
        client: client that sends the OffsetFetch now; the lookups are added to the history of this client's run.
        then: function that handles the response body.
    """
    sent_at = client.queue.now

    def looked_up(answer: Any) -> None:
        for group in answer.groups:
            for topic in group.topics if not group.error_code else ():
                for partition in topic.partitions:
                    place = topic.name, partition.partition_index
                    if not partition.error_code:
                        operation = OffsetOperation(group.group_id, place, partition.committed_offset, False, sent_at)
                        operation.result, operation.done_at = Result.DONE, client.queue.now
                        client.history.offsets.append(operation)
        then(answer)

    return looked_up
