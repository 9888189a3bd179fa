"""The checker of invariant I39: DeleteRecords moves the start of a log to the requested offset, and no other request
moves it.
"""

from __future__ import annotations

from mockbroker.lab.simulation.checkers.final_log import FinalLog, named
from mockbroker.lab.simulation.history import EARLIEST


def find_wrong_start(log: FinalLog) -> str:
    """Return a description of a wrong log start; "" if all log starts are correct.

    There are two kinds: a DeleteRecords response whose low watermark is below the requested offset, and a log start in
    a ListOffsets response to which no DeleteRecords request moved the log.

    ``log``: the records at the end of the run.
    """
    for each in log.history.deletions:
        if each.low_watermark >= 0 and each.low_watermark < each.offset:
            return (
                f"DeleteRecords before {each.offset} of {named(each.place)} returned the low watermark"
                f" {each.low_watermark}"
            )
    for listing in log.history.listings:
        if listing.timestamp != EARLIEST:
            continue
        deletions = [each for each in log.history.deletions if each.place == listing.place]
        least = max((each.low_watermark for each in deletions if each.done_at <= listing.sent_at), default=0)
        most = max((each.offset for each in deletions if each.sent_at < listing.done_at), default=0)
        if not least <= listing.offset <= most:
            return (
                f"{listing.client} got the start {listing.offset} of {named(listing.place)} at {listing.done_at:.3f} s,"
                f" but DeleteRecords moved it to {least} or at most {most}"
            )
    return ""
