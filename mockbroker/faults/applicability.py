"""The actions and conditions that a fault rule about an API may have, derived from the message declarations."""

from __future__ import annotations

from functools import cache

from kwire.apikeys import ApiKey
from kwire.body_fields import fields_of
from kwire.messages import APIS
from kwire.schema import schema_of
from mockbroker.faults.identifiers import MEMBER_ID, terms_of
from mockbroker.faults.malformed import FORMS
from mockbroker.faults.matching import criteria
from mockbroker.faults.rule import Action, Evict, Malform, Match, Throttle

WITH_LENGTH = frozenset({"string", "bytes", "records", "array"})


def obstacle(key: int, action: Action) -> str | None:
    """Return the reason why a fault rule cannot have an action for an API, such as ``its response has no records``.

    Return None if the rule can have the action.

    Args:
        key: API key.
        action: The action.
    """
    match action.effect:
        case Throttle() if not has_throttle_time(key):
            return "its response has no throttle time"
        case Evict() if MEMBER_ID not in terms_of(key):
            return "its request names no member"
        case Malform(malform=form) if form in FORMS and (reason := malform_obstacle(key, form)):
            return reason
        case _:
            return None


def malform_obstacle(key: int, form: str) -> str | None:
    """Return the reason why a form of malformed response is not possible for an API; None if it is possible.

    Args:
        key: API key.
        form: Name of the form, a key of ``malformed.FORMS``.
    """
    part = FORMS[form].part
    if part == "api_versions":
        return None if key == ApiKey.API_VERSIONS else "its response has no versions of APIs"
    if part == "frame" or fitting_fields(key, form):
        return None
    return f"its response has no {FORMS[form].what}"


@cache
def fitting_fields(key: int, form: str) -> tuple[str, ...]:
    """Return the sorted paths of the response fields that a form of malformed response can change, such as
    ``topics.partitions``.

    Args:
        key: API key.
        form: Name of the form, a key of ``malformed.FORMS``.
    """
    kinds = {"array": {"array"}, "length": WITH_LENGTH, "records": {"records"}}.get(FORMS[form].part, set())
    return tuple(path for path, field in fields_of(APIS[key].response) if field.kind in kinds)


def applies_to(key: int, match: Match, action: Action) -> bool:
    """Return whether a rule without API names applies to the requests of an API.

    Args:
        key: API key.
        match: Conditions of the rule.
        action: Action of the rule.
    """
    return terms_of(key).issuperset(criteria(match)) and obstacle(key, action) is None


@cache
def has_throttle_time(key: int) -> bool:
    return "throttle_time_ms" in schema_of(APIS[key].response).fields
