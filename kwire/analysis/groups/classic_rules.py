"""Protocol violations of classic members: no request within the session timeout, and invalid commits."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

from kwire.analysis.columns import MS
from kwire.analysis.groups.classic_life import ClassicLife
from kwire.analysis.groups.sessions import GONE


def report_gaps(life: ClassicLife) -> None:
    """Add a row of ``violations`` for each time for which a member sent no request within its session timeout.

    The time in which a member waits for a response to JoinGroup or SyncGroup does not count.

    ``life``: one life of a classic group; the violations are added to its rows.
    """
    for member, membership in life.memberships.items():
        timeout = membership.session_timeout_ms
        if timeout is None:
            continue
        parked = life.sessions.parked[member]
        signs = [ts for ts in life.sessions.signs[member] if membership.left_ts is None or ts <= membership.left_ts]
        for earlier, later in pairwise(signs):
            if later - earlier <= timeout * MS:
                continue
            is_parked = any(begin <= earlier and later <= end for begin, end in parked)
            if not is_parked and life.out.is_silence(member, earlier, later):
                life.out.violation(
                    later,
                    "heartbeat_gap",
                    f"no request for {(later - earlier) / MS:.0f} ms; its session timeout is {timeout} ms",
                    since=earlier,
                    member_id=member,
                    client_id=membership.client_id,
                )


def report_commits(life: ClassicLife) -> None:
    """Add a row of ``violations`` for each invalid commit in one life of a classic group.

    A commit is invalid if the member is fenced, the generation is old, or the partition belongs to a different member.

    ``life``: one life of a classic group; the violations are added to its rows.
    """
    moments = [phase.done_ts for phase in life.phases]
    for event in life.events:
        membership = life.memberships.get(event.member_id or "")
        if event.offset is None or membership is None or event.generation is None:
            continue
        place = bisect_left(moments, event.ts)
        current = life.phases[place - 1] if place else None
        kind = detail = ""
        if membership.gone(event.ts) or event.error_code in GONE:
            kind, detail = "commit_fenced", f"it was no longer a member ({membership.left_how or 'reason unknown'})"
        elif current is not None and event.generation < current.generation:
            kind, detail = "commit_old_generation", f"the group was in generation {current.generation}"
        elif not life.sessions.may_commit(event):
            kind, detail = "commit_not_owner", "the partition was not assigned to it"
        if kind:
            life.out.bad_commit(event, kind, detail)
