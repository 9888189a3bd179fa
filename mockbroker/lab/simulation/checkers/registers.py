"""The checker of invariant I38: topics, configurations and access rules are linearizable registers.

The value of a topic's register is its number of partitions. A Produce request reads the register of an access rule:
while the rule denies access to the principal, the broker must reject the records of the request.
"""

from __future__ import annotations

from mockbroker.lab.simulation.checkers.final_log import FinalLog
from mockbroker.lab.simulation.checkers.linearizable import first_impossible
from mockbroker.lab.simulation.history import NOTHING, OffsetOperation, Result


def find_impossible_state(log: FinalLog) -> str:
    """Return a description of a response that is impossible in every order of the administrator's requests.

    The result is "" if all responses are possible.

    ``log``: the records at the end of the run.
    """
    registers: dict[str, list[OffsetOperation]] = {}
    for each in log.history.registers:
        if each.result is not Result.REFUSED:
            operation = OffsetOperation(
                each.name, ("", 0), each.value, each.write, each.sent_at, each.done_at, each.result
            )
            registers.setdefault(each.name, []).append(operation)
    for name, operations in registers.items():
        failed = first_impossible(operations)
        if failed is not None:
            value = "no value" if failed.offset == NOTHING else f"the value {failed.offset}"
            what = "a request that sets" if failed.write else "a response with"
            return f"{name}: {what} {value} at {failed.sent_at:.3f} s fits no order of the requests"
    return ""
