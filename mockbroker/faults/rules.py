"""The fault rules of a cluster, in the order in which they are compared with a request."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from kwire.lazy_dataclass import dataclass
from kwire.messages import APIS
from mockbroker.base.effects import Call
from mockbroker.base.errors import ConflictError
from mockbroker.faults.applicability import applies_to
from mockbroker.faults.globs import compile_glob
from mockbroker.faults.matching import Element, Lookups, Matcher, NewConnection, Subject
from mockbroker.faults.occurrence import Counters
from mockbroker.faults.rule import CONNECT, REQUEST, Rule

MAX_RULES = 1_000
GENERATED_NAME = "fault-{}"


class RuleExists(ConflictError):
    """The error for a rule whose name is already used by another rule or preset."""


class TooManyRules(ConflictError):
    """The error for a rule that exceeds the limit on the number of rules."""


class ActiveRule:
    """A rule that has been added, and its counters.

    Attributes:
        rule: The rule.
        counters: Numbers of matches and applications.
        matcher: The compiled conditions of the rule.
        keys: Keys of the APIs to which the rule can apply.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.counters = Counters(rule.occurrence)
        self.matcher = Matcher(rule.match)
        self.keys = self.matcher.keys or frozenset(key for key in APIS if applies_to(key, rule.match, rule.action))


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault for one request or connection, with the rule that causes the fault and the affected elements.

    Attributes:
        active: The rule.
        elements: The matching elements of the request, such as partitions; WHOLE_REQUEST if the rule has no condition
            about elements; empty for a new connection.
        delay_ms: Delay including jitter, in milliseconds; 0 without a delay.
    """

    active: ActiveRule
    elements: tuple[Element, ...] = ()
    delay_ms: int = 0

    @property
    def rule(self) -> Rule:
        return self.active.rule


class Rules:
    """The fault rules of a cluster, in order, with their counters.

    Args:
        limit: Maximum number of rules.
    """

    def __init__(self, limit: int = MAX_RULES) -> None:
        self._limit = limit
        self._rules: dict[str, ActiveRule] = {}  # in order; replacing a value keeps its position
        self._by_api: dict[int, list[ActiveRule]] = {}
        self._of_connections: list[ActiveRule] = []
        self._names_generated = 0

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[ActiveRule]:
        return iter(self._rules.values())

    @property
    def keys(self) -> Collection[int]:
        """The keys of the APIs to which at least one rule may apply."""
        return self._by_api.keys()

    def get(self, name: str) -> ActiveRule | None:
        return self._rules.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._rules

    def add_all(self, rules: Sequence[Rule]) -> list[ActiveRule]:
        """Add several rules at the end, and return them with their counters.

        If one rule cannot be added, no rule is added.

        ``rules``: the rules, with different names.

        Raises: RuleExists if a rule of this name exists; TooManyRules if the maximum number of rules is reached.
        """
        for rule in rules:
            self._check_new(rule.name)
        if len(self._rules) + len(rules) > self._limit:
            raise self._too_many()
        return [self._put(rule) for rule in rules]

    def add(self, rule: Rule) -> ActiveRule:
        """Add a rule at the end, and return it with its counters. A rule without a name gets one.

        Raises: RuleExists if a rule of this name exists; TooManyRules if the maximum number of rules is reached.
        """
        self._check_new(rule.name)
        if len(self._rules) >= self._limit:
            raise self._too_many()
        if not rule.name:
            rule = replace(rule, name=self._new_name())
        return self._put(rule)

    def replace(self, rule: Rule) -> ActiveRule:
        """Replace the rule with the same name, or add the rule if no rule has this name. Return it with its counters.

        The new rule has the position of the replaced rule. The counters of the new rule begin at 0.

        Raises: TooManyRules if the maximum number of rules is reached.
        """
        return self._put(rule) if rule.name in self._rules else self.add(rule)

    def remove(self, name: str = "*") -> list[ActiveRule]:
        """Remove the rules whose name matches a glob; return them. Raises: ValueError for an invalid glob."""
        matches = compile_glob(name)
        removed = [active for key, active in self._rules.items() if matches(key)]
        for active in removed:
            del self._rules[active.rule.name]
        self._index()
        return removed

    def first(self, call: Call[Any], lookups: Lookups) -> Fault | None:
        """Return the fault of the first rule that is applied to a request; None if no rule is applied.

        Each matching rule up to and including the applied rule counts a match.

        Args:
            call: The request.
            lookups: Functions that look up values in the broker's state.
        """
        tried = self._by_api.get(call.ticket.api_key)
        if tried is None:
            return None
        subject = Subject(call, lookups)
        for active in tried:
            elements = active.matcher.elements(subject)
            if elements and active.counters.record_match():
                return _fault(active, tuple(elements))
        return None

    def first_for_connection(self, connection: NewConnection) -> Fault | None:
        """Return the fault of the first rule that is applied to a new connection; None if no rule is applied."""
        for active in self._of_connections:
            if active.matcher.matches_connection(connection) and active.counters.record_match():
                return _fault(active, ())
        return None

    def _put(self, rule: Rule) -> ActiveRule:
        active = self._rules[rule.name] = ActiveRule(rule)
        self._index()
        return active

    def _check_new(self, name: str) -> None:
        if name in self._rules:
            raise RuleExists(f"the rule {name} already exists: replace the rule, or use another name")

    def _too_many(self) -> TooManyRules:
        return TooManyRules(f"there are {len(self._rules)} rules, and the limit is {self._limit}: remove rules first")

    def _index(self) -> None:
        self._by_api = {}
        for active in self:
            if active.rule.match.on == REQUEST:
                for key in active.keys:
                    self._by_api.setdefault(key, []).append(active)
        self._of_connections = [active for active in self if active.rule.match.on == CONNECT]

    def _new_name(self) -> str:
        while True:
            self._names_generated += 1
            name = GENERATED_NAME.format(self._names_generated)
            if name not in self._rules:
                return name


def _fault(active: ActiveRule, elements: tuple[Element, ...]) -> Fault:
    delay = active.rule.action.delay
    return Fault(active, elements, 0 if delay is None else active.counters.delay_ms(delay))
