"""The definition of presets.

A preset is a named set of fault rules and cluster changes that reproduces a common failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from kwire.lazy_dataclass import dataclass
from mockbroker.faults.parsing import ALWAYS, NAME
from mockbroker.faults.sections import INT32_MAX, InvalidRule, Problem, Section

Value: TypeAlias = str | int
Values: TypeAlias = Mapping[str, Any]
RuleForm: TypeAlias = dict[str, Any]

DURATION = "duration_ms"
LONGEST_NAME = 80  # characters; the names of rules add a suffix


@dataclass(frozen=True, slots=True)
class StopBroker:
    """The cluster change that stops a broker, and starts it again when the change ends. ``node``: broker id."""

    node: int


@dataclass(frozen=True, slots=True)
class FreezeMetadata:
    """The cluster change that makes a broker return outdated metadata until the change ends.

    When the change begins, live followers become the leaders of the broker's partitions of the given topics. A
    partition without a live follower keeps its leader.

    Attributes:
        node: id of the broker. None for the leader of the first partition of these topics with a live follower; if no
            partition has one, the broker with the lowest id.
        topic: glob for the names of the topics.
    """

    node: int | None
    topic: str


@dataclass(frozen=True, slots=True)
class LoseRecords:
    """The cluster change that elects a leader without the last records of a partition, so that these records are lost.

    Attributes:
        topic: Name of the topic.
        partition: Index of the partition.
        count: Number of lost records.
    """

    topic: str
    partition: int
    count: int


Change: TypeAlias = StopBroker | FreezeMetadata | LoseRecords


@dataclass(frozen=True, slots=True)
class Phase:
    """A change to the cluster and its duration.

    Times are milliseconds of the broker's clock since the preset was applied.

    Attributes:
        change: The change.
        begins_ms: Time at which the change begins.
        ends_ms: Time at which the change ends; None if it lasts until the preset is removed.
    """

    change: Change
    begins_ms: int = 0
    ends_ms: int | None = None


def no_rules(_: Values) -> list[RuleForm]:
    """Return no rules. The function is used for a preset that only changes the cluster."""
    return []


def no_phases(_: Values, __: Sequence[int]) -> list[Phase]:
    """Return no cluster changes. The function is used for a preset that consists only of rules."""
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """The declaration of a parameter of a preset.

    Attributes:
        kind: "text"; "glob"; "integer"; "times", an integer or ``always``; "choice"; or "name", the name of a rule.
        description: Meaning of the parameter.
        default: The value if the parameter is absent; None without a default.
        required: Whether the parameter must be present.
        lowest: The lowest integer.
        highest: The highest integer.
        options: The possible values of a choice.
    """

    kind: Literal["text", "glob", "integer", "times", "choice", "name"]
    description: str
    default: Value | None = None
    required: bool = False
    lowest: int = 0
    highest: int = INT32_MAX
    options: tuple[str, ...] = ()

    def read(self, section: Section, key: str) -> Value | None:
        """Return the value of the parameter, or its default if it is absent. Problems are added to ``section``.

        Args:
            section: The JSON object of the parameters.
            key: Name of the parameter.
        """
        if self.required and key not in section:
            section.refuse(key, "this parameter is required")
        value = self._given(section, key)
        return self.default if value is None else value

    def to_json(self) -> dict[str, Any]:
        """Return the declaration of the parameter in JSON form, without attributes that do not apply to its kind."""
        form: dict[str, Any] = {"kind": self.kind, "description": self.description, "required": self.required}
        if self.default is not None:
            form["default"] = self.default
        if self.options:
            form["options"] = list(self.options)
        if self.kind in ("integer", "times"):
            form |= {"lowest": self.lowest, "highest": self.highest}
        return form

    def _given(self, section: Section, key: str) -> Value | None:
        match self.kind:
            case "text":
                return section.text(key)
            case "glob":
                return section.glob(key)
            case "choice":
                return section.choice(key, self.options)
            case "name":
                name = section.text(key)
                if name is not None and not (NAME.fullmatch(name) and len(name) <= LONGEST_NAME):
                    what = f"use 1 to {LONGEST_NAME} of the characters A-Z a-z 0-9 . _ -"
                    section.refuse(key, f"{name!r} is not a valid name: {what}")
                return name
            case "times" if section.raw(key) == ALWAYS:
                return ALWAYS
            case "times" if isinstance(section.raw(key), str):
                section.refuse(key, f"expected an integer or {ALWAYS!r}", (ALWAYS,))
                return None
            case _:
                return section.integer(key, self.lowest, self.highest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A named set of fault rules and cluster changes that reproduces a common failure.

    Attributes:
        name: Name of the preset.
        description: Effect of the rules and changes.
        parameters: Declarations of the parameters by name.
        build: Function that returns the rules in their JSON form, from the values of all parameters.
        phases: Function that returns the changes, from the values of all parameters and the ids of all brokers.
    """

    name: str
    description: str
    parameters: Mapping[str, Parameter]
    build: Callable[[Values], list[RuleForm]] = no_rules
    phases: Callable[[Values, Sequence[int]], list[Phase]] = no_phases

    def values(self, form: object) -> Values:
        """Return the values of all parameters, with defaults for absent ones.

        ``form``: the JSON object of the parameters.

        Raises: InvalidRule, with every invalid parameter.
        """
        problems: list[Problem] = []
        section = Section(form, "", problems)
        values = {key: parameter.read(section, key) for key, parameter in self.parameters.items()}
        section.refuse_unknown()
        if problems:
            raise InvalidRule(problems)
        return values

    def rules(self, form: object) -> list[RuleForm]:
        """Return the fault rules that the preset creates for given parameters, as JSON objects.

        ``form``: the JSON object of the parameters.

        Raises: InvalidRule, with every invalid parameter.
        """
        return self.build(self.values(form))

    @property
    def changes_cluster(self) -> bool:
        """Whether the preset makes changes to the cluster itself."""
        return self.phases is not no_phases

    def to_json(self) -> dict[str, Any]:
        """Return the preset in JSON form: its name, its description, and its parameters by name."""
        parameters = {name: parameter.to_json() for name, parameter in self.parameters.items()}
        return {"name": self.name, "description": self.description, "parameters": parameters}
