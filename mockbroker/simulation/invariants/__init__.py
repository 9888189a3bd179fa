"""The invariants of groups, an object each, outside of what they check."""

from __future__ import annotations

from mockbroker.simulation.invariants.answered import Answered
from mockbroker.simulation.invariants.commits_kept import CommitsKept
from mockbroker.simulation.invariants.fenced_producers import FencedProducers
from mockbroker.simulation.invariants.generations import Generations
from mockbroker.simulation.invariants.leadership import Leadership
from mockbroker.simulation.invariants.members_commit import MembersCommit
from mockbroker.simulation.invariants.nothing_left import NothingLeft
from mockbroker.simulation.invariants.offsets_by_commit import OffsetsByCommit
from mockbroker.simulation.invariants.one_owner import OneOwner
from mockbroker.simulation.invariants.others_untouched import OthersUntouched
from mockbroker.simulation.invariants.replayed import Replayed
from mockbroker.simulation.invariants.revocations import Revocations
from mockbroker.simulation.invariants.same_view import SameView
from mockbroker.simulation.invariants.sessions import Sessions
from mockbroker.simulation.invariants.statistics import Statistics
from mockbroker.simulation.invariants.transitions import Transitions
from mockbroker.simulation.model import Model
from mockbroker.simulation.watching import Watcher


def watchers(longest_wait: float) -> list[Watcher]:
    """New checkers for one run. ``longest_wait``: seconds that a JoinGroup may wait for its answer."""
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
    ]
