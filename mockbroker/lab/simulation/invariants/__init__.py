"""The checkers of I1 to I26 and I46, without I9 (``liveness.py``) and I16 (``run.py``).

A checker uses no code of the broker to compute the expected result.
"""

from __future__ import annotations

from mockbroker.lab.simulation.invariants.answered import Answered
from mockbroker.lab.simulation.invariants.commits_kept import CommitsKept
from mockbroker.lab.simulation.invariants.fenced_producers import FencedProducers
from mockbroker.lab.simulation.invariants.fetch_waits import LATE, LATE_IN_SLICES, FetchWaits
from mockbroker.lab.simulation.invariants.generations import Generations
from mockbroker.lab.simulation.invariants.leadership import Leadership
from mockbroker.lab.simulation.invariants.members_commit import MembersCommit
from mockbroker.lab.simulation.invariants.nothing_left import NothingLeft
from mockbroker.lab.simulation.invariants.offsets_by_commit import OffsetsByCommit
from mockbroker.lab.simulation.invariants.one_owner import OneOwner
from mockbroker.lab.simulation.invariants.others_untouched import OthersUntouched
from mockbroker.lab.simulation.invariants.replayed import Replayed
from mockbroker.lab.simulation.invariants.revocations import Revocations
from mockbroker.lab.simulation.invariants.same_view import SameView
from mockbroker.lab.simulation.invariants.sessions import Sessions
from mockbroker.lab.simulation.invariants.shares import (
    DeliveryCounts,
    NeverAgain,
    OneHolder,
    ShareSessionEpochs,
    StartOffsets,
)
from mockbroker.lab.simulation.invariants.statistics import Statistics
from mockbroker.lab.simulation.invariants.task_owners import TaskOwners
from mockbroker.lab.simulation.invariants.task_targets import TaskTargets
from mockbroker.lab.simulation.invariants.transitions import Transitions
from mockbroker.lab.simulation.model import Model
from mockbroker.lab.simulation.watching import Watcher


def watchers(longest_wait: float, early: float = 0.0, *, small_slices: bool = False) -> list[Watcher]:
    """Return new checkers for one run.

    Args:
        longest_wait: longest time in seconds that a request may be pending.
        early: time in seconds by which a delayed Fetch may be completed early.
        small_slices: whether even requests of a few elements are handled in several slices (parts of limited size).
    """
    model = Model()
    return [
        OneOwner(),
        Generations(),
        SameView(),
        CommitsKept(model),
        OffsetsByCommit(model),
        MembersCommit(),
        Answered(longest_wait),
        Sessions(),
        Replayed(),
        Transitions(),
        NothingLeft(),
        Statistics(),
        OthersUntouched(),
        Leadership(),
        Revocations(),
        FencedProducers(),
        FetchWaits(early, LATE_IN_SLICES if small_slices else LATE),
        TaskOwners(),
        TaskTargets(),
        OneHolder(),
        DeliveryCounts(),
        NeverAgain(),
        StartOffsets(),
        ShareSessionEpochs(),
    ]
