"""The five steps of a rebalance after which a coordinator can fail, as conditions for ``DraftCluster.strike``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mockbroker.lab.history.draft.messages import Error
from mockbroker.lab.history.draft.trace import Moment


def noticed_change(moment: Moment) -> bool:
    return moment.kind == "noticed"


def sent_illegal_generation(moment: Moment) -> bool:
    return (moment.what, moment.error) == ("Heartbeat answer", Error.ILLEGAL_GENERATION)


def received_join(moment: Moment) -> bool:
    return (moment.kind, moment.what) == ("received", "JoinGroup")


def wrote_generation(moment: Moment) -> bool:
    return moment.kind == "wrote"


def sent_generation(moment: Moment) -> bool:
    return (moment.what, moment.error) == ("JoinGroup answer", Error.NONE)


STEPS: Mapping[str, Callable[[Moment], bool]] = {
    "1 it notices that a rebalance is needed": noticed_change,
    "2 it notifies some members": sent_illegal_generation,
    "3 some members join": received_join,
    "4 it writes generation, members and ownership": wrote_generation,
    "5 it answers some members": sent_generation,
}
"""Description of each step -> predicate for its first moment in the trace."""
