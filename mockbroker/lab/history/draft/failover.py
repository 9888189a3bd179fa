"""The five steps of a rebalance, as moments after which the coordinator's broker can be gone, for ``strike``."""

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
"""In the words of the trace: the first moment of each step."""
