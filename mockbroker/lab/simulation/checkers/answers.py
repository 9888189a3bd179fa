"""The checker of invariant I47: a response to an operator has a value that is possible.

An operator knows from its earlier responses which errors are possible. For example, a delegation token that has expired
cannot be renewed, and a share group with a member refuses new offsets.
"""

from __future__ import annotations

from mockbroker.lab.simulation.checkers.final_log import FinalLog


def find_impossible_answer(log: FinalLog) -> str:
    """Return a description of a response to an operator that is impossible, or "" if all are possible.

    ``log``: the records at the end of the run.
    """
    for answer in log.history.answers:
        if answer.value not in answer.possible:
            possible = " or ".join(str(int(value)) for value in sorted(answer.possible))
            return f"{answer.what} has the result {int(answer.value)} at {answer.at:.3f} s, expected {possible}"
    return ""
