"""The five steps of a rebalance, after each of which ``DraftCluster.strike`` can fail the coordinator's broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mockbroker.lab.history.draft.messages import Error
from mockbroker.lab.history.draft.trace import Moment


def noticed(moment: Moment) -> bool:
    return moment.kind == "noticed"


def told_one(moment: Moment) -> bool:
    return (moment.what, moment.error) == ("Heartbeat answer", Error.ILLEGAL_GENERATION)


def heard_one(moment: Moment) -> bool:
    return (moment.kind, moment.what) == ("received", "JoinGroup")


def wrote(moment: Moment) -> bool:
    return moment.kind == "wrote"


def answered_one(moment: Moment) -> bool:
    return (moment.what, moment.error) == ("JoinGroup answer", Error.NONE)


STEPS: Mapping[str, Callable[[Moment], bool]] = {
    "1 it notices that a rebalance is needed": noticed,
    "2 it tells some members": told_one,
    "3 some members join": heard_one,
    "4 it writes generation, members and ownership": wrote,
    "5 it answers some members": answered_one,
}
"""Description of each step -> predicate for its first moment in the trace."""
