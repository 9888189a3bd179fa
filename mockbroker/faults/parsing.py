"""Conversion of fault rules from JSON values and to JSON values."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import MISSING, fields
from typing import Any

from kwire.apikeys import ApiKey
from kwire.messages import APIS
from mockbroker.faults.api_errors import error_of_elements, unusual_error
from mockbroker.faults.applicability import applies_to
from mockbroker.faults.matching import criteria
from mockbroker.faults.parsing_action import parse_action
from mockbroker.faults.parsing_match import parse_match
from mockbroker.faults.rule import REQUEST, Action, Error, Match, Occurrence, Rule
from mockbroker.faults.sections import InvalidRule, Problem, Section

NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
ALWAYS = "always"
SEED_MAX = (1 << 63) - 1


def parse_rule(form: object, served: Collection[int] = APIS, name: str = "") -> Rule:
    """Return the rule that a JSON value describes.

    Args:
        form: The decoded JSON value.
        served: API keys that a rule may name.
        name: The name of the rule from a source other than the JSON value, such as a URL; "" to use only the name in
            the JSON value.

    Raises: InvalidRule, with all problems of the rule.
    """
    problems: list[Problem] = []
    section = Section(form, "", problems)
    own_name = _name(section, name)
    match = parse_match(Section(section.raw_or("match", {}), "match", problems), served)
    occurrence = _occurrence(Section(section.raw_or("occurrence", {}), "occurrence", problems))
    action = parse_action(Section(section.raw_or("action", {}), "action", problems), match)
    section.refuse_unknown()
    if not problems and not match.api and match.on == REQUEST:
        _check_any_api(match, action, served, problems)
    if problems:
        raise InvalidRule(problems)
    return Rule(name=own_name, match=match, occurrence=occurrence, action=action)


def warnings(rule: Rule) -> list[Problem]:
    """Return warnings about a valid rule, such as an error that Kafka never returns for the API."""
    found = []
    matches_produce = (
        "Produce" in rule.match.api if rule.match.api else applies_to(ApiKey.PRODUCE, rule.match, rule.action)
    )
    if isinstance(rule.action.effect, Error) and matches_produce:
        found.append(Problem("action.error", "no effect on a Produce with acks=0, which has no response"))
    if isinstance(rule.action.effect, Error):
        doubts = [unusual_error(api, rule.action.effect.error) for api in rule.match.api]
        if rule.match.topic is None and rule.match.partition is None:
            doubts += [error_of_elements(api, rule.action.effect.error) for api in rule.match.api]
        found += [Problem("action.error", detail) for detail in doubts if detail is not None]
    return found


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """Return the JSON form of a rule. Fields with their default value are omitted."""
    match = _given(rule.match)
    if len(rule.match.api) == 1:
        match["api"] = rule.match.api[0]
    elif rule.match.api:
        match["api"] = list(rule.match.api)
    occurrence = _given(rule.occurrence)
    if rule.occurrence.times is None:
        occurrence["times"] = ALWAYS
    form = {"name": rule.name, "match": match, "occurrence": occurrence, "action": action_to_json(rule.action)}
    return {key: value for key, value in form.items() if value or key in ("match", "action")}


def _name(section: Section, given: str) -> str:
    name = section.text("name")
    if name is not None and given and name != given:
        section.refuse("name", f"the name differs from {given}, the name in the request: leave it out", (given,))
    name = name if name is not None else given or None
    if name is not None and not NAME.fullmatch(name):
        section.refuse("name", f"{name!r} is not a valid name: use 1 to 100 of the characters A-Z a-z 0-9 . _ -")
    return name or ""


def _occurrence(section: Section) -> Occurrence:
    times: int | None = 1
    if section.raw("times") == ALWAYS:
        times = None
    elif isinstance(section.raw("times"), str):
        section.refuse("times", f"expected an integer or {ALWAYS!r}", (ALWAYS,))
    else:
        times = section.integer("times", 1) or 1
    probability = section.number("probability", 0, 1)
    occurrence = Occurrence(
        skip=section.integer("skip", 0) or 0,
        every=section.integer("every", 1) or 1,
        probability=1.0 if probability is None else probability,
        seed=section.integer("seed", 0, SEED_MAX) or 0,
        times=times,
    )
    section.refuse_unknown()
    return occurrence


def _check_any_api(match: Match, action: Action, served: Collection[int], problems: list[Problem]) -> None:
    if not any(applies_to(key, match, action) for key in served):
        given = ", ".join(criteria(match)) or "these conditions"
        problems.append(Problem("action", f"no API with {given} supports this action: name an API in match.api"))


def action_to_json(action: Action) -> dict[str, Any]:
    """Return the JSON form of an action. Fields with their default value are omitted."""
    form: dict[str, Any] = {}
    for part in (action.effect, action.delay):
        if part is not None:
            first = fields(part)[0].name
            form |= {first: getattr(part, first)} | _given(part)
    form |= form.pop("parameters", {})
    return form


def _given(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass instance that do not have their default value, by name."""
    return {
        field.name: content
        for field in fields(value)
        if (content := getattr(value, field.name)) != field.default
        and (field.default_factory is MISSING or content != field.default_factory())
    }
