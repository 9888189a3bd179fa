"""Conversion of the JSON object ``match``, the conditions of a fault rule."""

from __future__ import annotations

from collections.abc import Collection
from reprlib import repr as shorten
from typing import Any

from kwire.body_fields import fields_of
from kwire.errors import SchemaError
from kwire.filter import FilterError
from kwire.messages import APIS
from kwire.schema import Versions
from mockbroker.faults.identifiers import PARTITION, TERMS, terms_of
from mockbroker.faults.matching import criteria
from mockbroker.faults.rule import CONNECT, REQUEST, Match
from mockbroker.faults.sections import Problem, Section, suggestions
from mockbroker.faults.where import arrays_without_index, compile_where, unknown_fields

REQUEST_KEYS = ("api", "version", "client_id", "principal", *TERMS, "where")


def parse_match(section: Section, served: Collection[int]) -> Match:
    """Return the conditions that the JSON object ``match`` of a rule describes.

    A problem is added to ``section`` for each value that is not valid.

    Args:
        section: The object ``match``, which collects the problems.
        served: API keys that a rule may name.
    """
    on = section.choice("on", (REQUEST, CONNECT)) or REQUEST
    broker = section.integer("broker", 0)
    listener = section.glob("listener")
    if on == CONNECT:
        match = Match(on=on, broker=broker, listener=listener, address=section.glob("address"))
        _refuse_request_keys(section)
    else:
        match = Match(
            api=_apis(section, served),
            version=_version(section),
            broker=broker,
            listener=listener,
            client_id=section.glob("client_id"),
            principal=section.glob("principal"),
            where=_where(section),
            **_terms(section),
        )
        _check_versions(section, match)
        _check_terms(section, match, served)
        _check_where(section, match, served)
    section.refuse_unknown({"address": '"on": "connect"'})
    return match


def _refuse_request_keys(section: Section) -> None:
    for key in REQUEST_KEYS:
        if key in section.form:
            section.refuse(
                key,
                f"{key} is a condition on requests: a rule about connections cannot have it",
                ("broker", "listener", "address"),
            )
    section.accept(key for key in REQUEST_KEYS if key in section.form)


def _terms(section: Section) -> dict[str, Any]:
    return {term: section.integer(term, 0) if term == PARTITION else section.glob(term) for term in TERMS}


def _apis(section: Section, served: Collection[int]) -> tuple[str, ...]:
    """Return the names of the APIs in the conditions of a rule. A problem is added to ``section`` for an empty list,
    and for each value that is not the name of a served API.

    Args:
        section: The object ``match``, which collects the problems.
        served: API keys that a rule may name.
    """
    value = section.raw("api")
    if value is None and "api" not in section:
        return ()
    is_list = isinstance(value, list)
    if value == []:
        section.refuse("api", "the list is empty: leave api out for all APIs")
    if is_list and len(value) > len(APIS):
        section.refuse(
            "api", f"the list has {len(value)} names, but there are only {len(APIS)} APIs: name each API once"
        )
        return ()
    names: list[str] = []
    known = {APIS[key].name: key for key in APIS}
    for index, name in enumerate(value if is_list else [value]):
        path = section.at(f"api[{index}]" if is_list else "api")
        if not isinstance(name, str):
            section.problems.append(Problem(path, f"expected the name of an API, got {shorten(name)}"))
        elif name not in known:
            possible = suggestions(name, [other for other, key in known.items() if key in served])
            section.problems.append(Problem(path, f"unknown API {shorten(name)}", possible))
        elif known[name] not in served:
            section.problems.append(Problem(path, f"the broker does not serve {name}"))
        else:
            names.append(name)
    return tuple(dict.fromkeys(names))


def api_keys(match: Match) -> list[int]:
    """Return the API keys for the names in the condition ``api`` of a rule; an empty list without this condition."""
    return [key for key in APIS if APIS[key].name in match.api] if match.api else []


def _version(section: Section) -> str:
    text = section.text("version")
    if text is None:
        return ""
    try:
        if Versions.parse(text).first >= 0 and text != "none":
            return text
    except SchemaError:
        pass
    section.refuse("version", f"invalid version range {shorten(text)}", ("5-8", "5", "5+"))
    return ""


def _check_versions(section: Section, match: Match) -> None:
    if not match.version:
        return
    wanted = Versions.parse(match.version)
    for key in api_keys(match):
        of_api = APIS[key].versions
        if wanted.first not in of_api or (wanted.last is not None and wanted.last not in of_api):
            section.refuse("version", f"{APIS[key].name} has no versions {wanted}", (str(of_api),))


def _check_terms(section: Section, match: Match, served: Collection[int]) -> None:
    given = criteria(match)
    for key in api_keys(match):
        terms = terms_of(key)
        for term in given.keys() - terms:
            possible = [other for other in TERMS if other in terms]
            section.refuse(term, f"{APIS[key].name} requests have no {term}", possible)
    if not match.api and not any(terms_of(key).issuperset(given) for key in served):
        section.problems.append(
            Problem(section.path, f"no API has requests with all of {', '.join(given)}: remove a condition")
        )


def _where(section: Section) -> str:
    value = section.raw("where")
    if value is None and "where" not in section:
        return ""
    if not isinstance(value, str):
        section.refuse("where", f"expected a filter, got {shorten(value)}")
        return ""
    try:
        compile_where(value)
    except FilterError as error:
        section.refuse("where", str(error).partition("\n")[0])
        return ""
    return value


def _check_where(section: Section, match: Match, served: Collection[int]) -> None:
    if not match.where:
        return
    keys = api_keys(match)
    for field in unknown_fields(match.where, keys or served):
        if keys:
            requests = f"{match.api[0]} requests" if len(keys) == 1 else "requests of these APIs"
            known = sorted({path for key in keys for path, _ in fields_of(APIS[key].request)})
            section.refuse("where", f"{requests} have no field {field}", suggestions(field, known))
        else:
            section.refuse("where", f"no request has a field {field}")
    for array, field in arrays_without_index(match.where, keys or served).items():
        name = array.rpartition(".")[2]
        section.refuse("where", f"{array} is an array: give the index of an element, such as {name}[0].{field}")
