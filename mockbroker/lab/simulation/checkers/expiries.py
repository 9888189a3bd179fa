"""The checker of invariant I44: committed offsets, transactional ids and producer ids do not expire early."""

from __future__ import annotations

from mockbroker.lab.simulation.checkers.final_log import FinalLog
from mockbroker.lab.simulation.upkeep_history import Renewal

ROUNDING = 0.003  # seconds


def find_early_expiry(log: FinalLog) -> str:
    """Return a description of an offset, transactional id or producer id that expired too soon after its last use.

    The result is "" if nothing expired too soon. A use is a successful request.

    ``log``: the records at the end of the run.
    """
    upkeep, broker_time = log.history.upkeep, log.history.broker_time
    last: dict[tuple[str, str], Renewal] = {}
    for each in sorted(upkeep.renewals, key=lambda renewal: renewal.done_at):
        before = last.get((each.kind, each.name))
        if each.expired and before is not None:
            seconds, least = broker_time(each.done_at) - broker_time(before.sent_at), upkeep.expirations[each.kind]
            if seconds < least - ROUNDING:
                return f"the {each.kind} {each.name} has expired after {seconds:.3f} s at most, not {least:g} s"
        if not each.expired or each.kind != "committed offset":  # a lookup does not renew the offset
            last[each.kind, each.name] = each
        else:
            last.pop((each.kind, each.name), None)
    return ""
