"""The checker of invariant I33: the committed offset of a group and partition is a linearizable register.

For each register, the checker processes the operations in order and keeps the set of the possible states. Source: G.
Lowe, "Testing for linearizability".
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

from mockbroker.lab.simulation.checkers.final_log import FinalLog, named
from mockbroker.lab.simulation.history import OffsetOperation, Place, Result

MOST_STATES = 5_000  # a register with more possible states is not checked further
State = tuple[int, int]  # offset, and a mask: bit n is set if the pending operation n has taken effect
Interval = tuple[float, float]


def find_impossible_lookup(log: FinalLog) -> str:
    """Return a description of an offset operation whose result is impossible in every order of the commits.

    The result is "" if all results are possible.

    ``log``: the records at the end of the run.
    """
    registers: dict[tuple[str, Place], list[OffsetOperation]] = {}
    for each in log.history.offsets:
        if each.result is not Result.REFUSED and not (each.transaction and not each.transaction.may_be_committed):
            registers.setdefault((each.group, each.place), []).append(each)
    for (group, place), operations in registers.items():
        failed = first_impossible(operations)
        if failed is not None:
            what = f"a commit of {failed.offset}" if failed.write else f"the lookup of {failed.offset}"
            return f"{what} for {named(place)} of group {group} at {failed.sent_at:.3f} s fits no order of the commits"
    return ""


def _interval(operation: OffsetOperation) -> Interval:
    """Return the interval of virtual time, in seconds, within which an operation takes effect: (start, end).

    For a commit in a transaction, the interval is from EndTxn to its response; the end is inf if the transaction was
    not committed. For all other operations, it is from the request to the response.

    ``operation``: a commit or a lookup of an offset.
    """
    transaction = operation.transaction
    if transaction is None:
        return operation.sent_at, operation.done_at
    return transaction.decided_at, transaction.ended_at if transaction.is_committed else inf


def _is_optional(operation: OffsetOperation, others: list[tuple[OffsetOperation, Interval]]) -> bool:
    """Return whether a commit in a transaction may have no effect, because a commit in the same period may replace it.

    The result is False for operations outside a transaction.

    Args:
        operation: the commit to judge.
        others: all operations on the same group and partition, with their intervals.
    """
    if operation.transaction is None:
        return False
    end = _interval(operation)[1]
    return any(
        other is not operation and other.write and other.sent_at < end and other_end > operation.sent_at
        for other, (_, other_end) in others
    )


def first_impossible(operations: list[OffsetOperation]) -> OffsetOperation | None:
    """Return the first operation whose result is impossible in every order, or None if some order explains all
    operations.

    The first value of the register is -1. The function also returns None if there are too many possible states to check
    (more than MOST_STATES).

    ``operations``: all operations on one register, such as the committed offset of a group and partition.
    """
    timed = [(operation, _interval(operation)) for operation in operations]
    found = {operation.offset for operation in operations if not operation.write}
    events: list[tuple[float, int, int]] = []  # time, whether it is the end, and number of the operation
    optional: set[int] = set()  # operations that may have had no effect
    for number, (operation, (start, end)) in enumerate(timed):
        if end == inf or _is_optional(operation, timed):
            if not operation.write or operation.offset not in found:
                continue  # no lookup has returned the offset of this commit
            optional.add(number)
        events.append((start, 0, number))
        if end < inf:
            events.append((end, 1, number))
    pending: set[int] = set()
    states: set[State] = {(-1, 0)}
    for _, is_end, number in sorted(events):
        if not is_end:
            pending.add(number)
            continue
        reached = _reach(states, [(each, operations[each]) for each in pending], optional - {number})
        if reached is None:
            return None
        bit = 1 << number
        if number not in optional:
            reached = {state for state in reached if state[1] & bit}
        if not reached:
            return operations[number]
        pending.discard(number)
        states = {(offset, taken & ~bit) for offset, taken in reached}
    return None


def _reach(
    states: set[State], pending: list[tuple[int, OffsetOperation]], optional: Collection[int]
) -> set[State] | None:
    """Return the states that are possible after any of the pending operations have taken effect.

    A state is left out if another state of the result permits the same later results:

    - A pending lookup whose result is the committed offset takes effect at once in every state.
    - A commit that may have had no effect takes effect only just before a pending lookup that returns its offset.
      Without such a lookup, it takes effect later, or another commit replaces its offset.

    Args:
        states: possible states before, as (committed offset, mask of the operations that took effect). Bit n of the
            mask is the operation with number n.
        pending: the operations in flight, with their numbers.
        optional: numbers of commits that may have had no effect, and that may also take effect later.

    Returns: the states in the form of ``states``; None if there are more than MOST_STATES.
    """
    commits: list[tuple[int, int, bool]] = []  # bit, offset, and whether it is optional
    lookups: dict[int, int] = {}  # offset to the bits of the lookups with this result
    for number, operation in pending:
        if operation.write:
            commits.append((1 << number, operation.offset, number in optional))
        else:
            lookups[operation.offset] = lookups.get(operation.offset, 0) | 1 << number
    # Of each commit: its bit, its offset, the bits of it and of the lookups that then take effect, and the bits of the
    # lookups of which one must be pending (-1: the commit needs no lookup).
    steps = [
        (bit, offset, bit | (readers := lookups.get(offset, 0)), readers if is_optional else -1)
        for bit, offset, is_optional in commits
        if not is_optional or offset in lookups
    ]
    todo = [(offset, taken | lookups.get(offset, 0)) for offset, taken in states]
    reached = set(todo)
    while todo and steps:
        _, taken = todo.pop()
        for bit, offset, added, explains in steps:
            if not taken & bit and explains & ~taken and (state := (offset, taken | added)) not in reached:
                reached.add(state)
                todo.append(state)
        if len(reached) > MOST_STATES:
            return None
    return reached
