"""The checker of invariant I33: the committed offset of a group and partition is a linearizable register.

For each register, the checker processes the operations in order and keeps the set of the possible states. Source: G.
Lowe, "Testing for linearizability".
"""

from __future__ import annotations

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


def _is_optional(operation: OffsetOperation, others: list[OffsetOperation]) -> bool:
    """Return whether a commit in a transaction may have no effect, because another commit may have come later.

    The result is False for operations outside a transaction.

    Args:
        operation: the commit to judge.
        others: all operations on the same group and partition.
    """
    if operation.transaction is None:
        return False
    end = _interval(operation)[1]
    return any(
        other is not operation and other.write and other.sent_at < end and _interval(other)[1] > operation.sent_at
        for other in others
    )


def first_impossible(operations: list[OffsetOperation]) -> OffsetOperation | None:
    """Return the first operation whose result is impossible in every order, or None if some order explains all
    operations.

    The first value of the register is -1. The function also returns None if there are too many possible states to check
    (more than MOST_STATES).

    ``operations``: all operations on one register, such as the committed offset of a group and partition.
    """
    found = {operation.offset for operation in operations if not operation.write}
    # A commit that may have had no effect, and whose offset no lookup has returned, explains no result.
    relevant = [each for each in operations if not each.write or each.offset in found or _interval(each)[1] < inf]
    intervals = list(map(_interval, relevant))
    events = [(start, 0, number) for number, (start, _) in enumerate(intervals)]
    events += [(end, 1, number) for number, (_, end) in enumerate(intervals) if end < inf]
    pending: set[int] = set()
    states: set[State] = {(-1, 0)}
    for _, is_end, number in sorted(events):
        if not is_end:
            pending.add(number)
            continue
        reached = _reach(states, pending, relevant)
        if reached is None:
            return None
        bit = 1 << number
        if not _is_optional(relevant[number], operations):
            reached = {state for state in reached if state[1] & bit}
        if not reached:
            return relevant[number]
        pending.discard(number)
        states = {(offset, taken & ~bit) for offset, taken in reached}
    return None


def _reach(states: set[State], pending: set[int], operations: list[OffsetOperation]) -> set[State] | None:
    """Return the states that are possible after pending operations take effect, or None if there are more than
    MOST_STATES.

    A pending lookup whose result is the committed offset takes effect at once in every state: because it changes
    nothing, a state without it permits no other continuation.

    Args:
        states: possible states before, as (committed offset, mask of the operations that took effect).
        pending: numbers of the operations in flight, as indexes of ``operations``.
        operations: the operations on one group and partition that may explain a result.
    """
    commits: list[tuple[int, int]] = []  # bit and offset
    lookups: dict[int, int] = {}  # offset to the bits of the lookups with this result
    for number in pending:
        operation = operations[number]
        if operation.write:
            commits.append((1 << number, operation.offset))
        else:
            lookups[operation.offset] = lookups.get(operation.offset, 0) | 1 << number
    steps = [(bit, offset, bit | lookups.get(offset, 0)) for bit, offset in commits]
    todo = [(offset, taken | lookups.get(offset, 0)) for offset, taken in states]
    reached = set(todo)
    while todo:
        _, taken = todo.pop()
        for bit, offset, added in steps:
            if not taken & bit and (state := (offset, taken | added)) not in reached:
                reached.add(state)
                todo.append(state)
        if len(reached) > MOST_STATES:
            return None
    return reached
