"""The checkers of the invariants I27 to I34, I36 to I39, I42 to I45, I47 and I48.

The checkers use only the history that the clients observed, as Jepsen and Elle do for Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mockbroker.lab.simulation.checkers.aborted_reads import find_aborted_read
from mockbroker.lab.simulation.checkers.answers import find_impossible_answer
from mockbroker.lab.simulation.checkers.compaction import find_wrong_compaction
from mockbroker.lab.simulation.checkers.consistent_reads import find_inconsistent_read
from mockbroker.lab.simulation.checkers.cycles import find_cycle
from mockbroker.lab.simulation.checkers.duplicates import find_duplicate
from mockbroker.lab.simulation.checkers.exactly_once import find_repeated_processing
from mockbroker.lab.simulation.checkers.expiries import find_early_expiry
from mockbroker.lab.simulation.checkers.fencing import find_zombie
from mockbroker.lab.simulation.checkers.final_log import FinalLog
from mockbroker.lab.simulation.checkers.linearizable import find_impossible_lookup
from mockbroker.lab.simulation.checkers.log_ends import find_wrong_end
from mockbroker.lab.simulation.checkers.log_starts import find_wrong_start
from mockbroker.lab.simulation.checkers.logins import find_wrong_login
from mockbroker.lab.simulation.checkers.lost_writes import find_lost_write
from mockbroker.lab.simulation.checkers.quotas import find_exceeded_quota
from mockbroker.lab.simulation.checkers.registers import find_impossible_state
from mockbroker.lab.simulation.checkers.retention import find_wrong_retention
from mockbroker.lab.simulation.checkers.stable_lookups import find_unstable_lookup

# Name of the invariant -> function that returns the description of a violation, or "".
CHECKERS: Mapping[str, Callable[[FinalLog], str]] = {
    "I27": find_lost_write,
    "I28": find_duplicate,
    "I29": find_aborted_read,
    "I30": find_inconsistent_read,
    "I31": find_cycle,
    "I32": find_zombie,
    "I33": find_impossible_lookup,
    "I34": find_repeated_processing,
    "I36": find_wrong_end,
    "I37": find_unstable_lookup,
    "I38": find_impossible_state,
    "I39": find_wrong_start,
    "I42": find_wrong_retention,
    "I43": find_wrong_compaction,
    "I44": find_early_expiry,
    "I45": find_exceeded_quota,
    "I47": find_impossible_answer,
    "I48": find_wrong_login,
}
