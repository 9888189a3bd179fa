"""The completion of delayed fetches, when a partition changes or when the maximum wait of a fetch has expired.

The code that reads partitions is imported when the first fetch is delayed. Source: Kafka's DelayedFetch.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from mockbroker.base.effects import Effects, begin
from mockbroker.base.timers import FetchDue
from mockbroker.broker.broker import Broker
from mockbroker.topics.model import Partition
from mockbroker.transactions.registry import Ended


def complete_delayed_fetches(broker: Broker, partitions: Iterable[Partition]) -> Effects:
    """Complete the delayed fetches for which a change of partitions, such as an append, provides enough records.

    Delayed share fetches are completed after the request, by ``Router.finish``.

    Args:
        broker: The state of the cluster.
        partitions: The changed partitions.

    Returns:
        The responses. For a large fetch, which is read in slices (parts of limited size), the remaining work instead of
        the response.
    """
    if broker.share_fetch_purgatory.pending:
        partitions = list(partitions)
        broker.changed_partitions += partitions
    if not broker.fetch_purgatory.pending:
        return []
    from mockbroker.broker.fetch.delayed_fetch import (  # late, see the head of this module
        fetch_in_slices,
        is_satisfied,
        read,
        reply,
    )

    effects: Effects = []
    for call, context in broker.fetch_purgatory.watching((each.topic, each.index) for each in partitions):
        if len(context.partitions) > broker.slice_size:
            broker.fetch_purgatory.remove(call.ticket)
            effects += begin(call.ticket, fetch_in_slices(broker, call, context))
            continue
        result = read(broker, call, context)
        if is_satisfied(call, result):
            broker.fetch_purgatory.remove(call.ticket)
            broker.client_deadlines.forget(FetchDue(call.ticket))
            effects.append(reply(broker, call, context, result))
    return effects


def complete_transaction(broker: Broker, end: Ended) -> Effects:
    """Return the effects of the end of a transaction.

    The effects are journal events, and the responses to the delayed fetches that the end completes.

    Args:
        broker: the state of the cluster.
        end: the end of the transaction.
    """
    return [*end.notes, *complete_delayed_fetches(broker, end.appended)]


def complete_expired_fetch(broker: Broker, due: FetchDue) -> Effects:
    """Respond with the available records to a delayed fetch whose maximum wait has expired.

    If the fetch was answered already, nothing happens.

    Args:
        broker: The state of the cluster.
        due: The deadline of the fetch.

    Returns: the effects, such as responses and journal events.
    """
    delayed = broker.fetch_purgatory.remove(due.ticket)
    if delayed is None:
        return []
    from mockbroker.broker.fetch.delayed_fetch import fetch_in_slices, read, reply  # late, as above

    call, context = delayed
    if len(context.partitions) > broker.slice_size:
        context.expires_at = -inf
        return begin(call.ticket, fetch_in_slices(broker, call, context))
    return [reply(broker, call, context, read(broker, call, context))]
