"""Which actions an API can have, and which conditions; found in the declarations of its messages."""

from __future__ import annotations

from functools import cache

from kwire.apikeys import ApiKey
from kwire.messages import APIS
from kwire.schema import schema_of
from mockbroker.faults.fields import fields_of
from mockbroker.faults.identifiers import MEMBER_ID, terms_of
from mockbroker.faults.malformed import FORMS
from mockbroker.faults.matching import criteria
from mockbroker.faults.rule import Action, Evict, Malform, Match, Throttle

WITH_LENGTH = frozenset({"string", "bytes", "records", "array"})


def obstacle(key: int, action: Action) -> str | None:
    """Return why an API cannot have an action, such as ``its response has no records``, or None if it can."""
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
    """Return why the response of an API cannot be malformed in a form, or None if it can."""
    part = FORMS[form].part
    if part == "api_versions":
        return None if key == ApiKey.API_VERSIONS else "its response has no versions of APIs"
    if part == "frame" or fitting_fields(key, form):
        return None
    return f"its response has no {FORMS[form].what}"


@cache
def fitting_fields(key: int, form: str) -> tuple[str, ...]:
    """Return the response fields that a form can change, such as ``topics.partitions``."""
    kinds = {"array": {"array"}, "length": WITH_LENGTH, "records": {"records"}}.get(FORMS[form].part, set())
    return tuple(path for path, field in fields_of(APIS[key].response) if field.kind in kinds)


def applies_to(key: int, match: Match, action: Action) -> bool:
    """Report whether a rule without names of APIs is tried on the requests of an API."""
    return terms_of(key).issuperset(criteria(match)) and obstacle(key, action) is None


@cache
def has_throttle_time(key: int) -> bool:
    return "throttle_time_ms" in schema_of(APIS[key].response).fields
