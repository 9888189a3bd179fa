"""The checker of invariant I48: a login is accepted if and only if its password or token is valid.

After a credential was altered, the new password is accepted and the old one is refused; a deleted credential and a
token that has expired or was removed are refused; a renewed token is accepted until its new expiry time. A login that
overlaps an alteration may use the credential before or after it, and an alteration without a response may have taken
effect at any time, or never.
"""

from __future__ import annotations

from math import inf

from mockbroker.lab.simulation.checkers.final_log import FinalLog
from mockbroker.lab.simulation.history import CredentialChange, Login, Result

SLACK_MS = 5  # rounding of times to milliseconds


def find_wrong_login(log: FinalLog) -> str:
    """Return a description of a login whose result is wrong; "" if there is none.

    ``log``: the records at the end of the run.
    """
    changes: dict[str, list[CredentialChange]] = {}
    for change in log.history.credentials:
        if change.result is not Result.REFUSED:
            changes.setdefault(change.name, []).append(change)
    for login in log.history.logins:
        before = CredentialChange(login.credential, "", -inf, -inf, Result.DONE)
        of_name = [before, *changes.get(login.credential, ())]
        if not any(_explains(each, login) for each in of_name if _may_hold(each, login, of_name)):
            result = "accepted" if login.accepted else "refused"
            return (
                f"a login of {login.client} with {login.credential}, from {login.sent_at:.3f} to {login.done_at:.3f} s,"
                f" was {result}, which fits no order of the alterations"
            )
    return ""


def _may_hold(change: CredentialChange, login: Login, changes: list[CredentialChange]) -> bool:
    """Return whether an alteration may be the last one before a login is decided.

    Args:
        change: the alteration.
        login: the login.
        changes: all alterations of the credential.
    """
    return change.sent_at <= login.done_at and not any(
        each.result is Result.DONE and change.done_at <= each.sent_at and each.done_at <= login.sent_at
        for each in changes
        if each is not change
    )


def _explains(change: CredentialChange, login: Login) -> bool:
    """Return whether an alteration explains the result of a login if it is the last one before the login is decided."""
    if login.accepted:
        return change.password == login.password and login.sent_ms <= change.latest_ms + SLACK_MS
    return change.password != login.password or change.earliest_ms - SLACK_MS <= login.done_ms
