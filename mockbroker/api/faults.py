"""Fault rules of a cluster: ``cluster.faults`` adds rules, waits until they are applied, and releases held requests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Generic, Literal, Protocol, Self, TypeVar, Unpack

import trio

from kwire.lazy_dataclass import dataclass
from mockbroker.api.fault_names import ApiName, ErrorName, MalformName, PresetName
from mockbroker.api.fault_options import PresetParameters, RequestConditions, RuleOptions, rule_form
from mockbroker.api.fault_steps import step_of
from mockbroker.api.operations import ClusterOperations, Handle, operation
from mockbroker.api.wait import WaitTimeoutError, check_count, check_timeout, event_report
from mockbroker.base.effects import Effects
from mockbroker.base.errors import NotFoundError
from mockbroker.broker.handlers import HANDLERS
from mockbroker.broker.router import Router
from mockbroker.faults.parsing import parse_rule, rule_to_json, warnings
from mockbroker.faults.preset import DURATION, Preset
from mockbroker.faults.presets import PRESETS
from mockbroker.faults.rule import Rule
from mockbroker.faults.rules import ActiveRule
from mockbroker.faults.script import Step
from mockbroker.faults.stage import FaultStage
from mockbroker.net.clock import BrokerTime

WAIT_TIMEOUT = 10.0  # seconds; the default of wait_applied and wait_holding


class UnknownFaultError(NotFoundError):
    """The error for the name of a fault rule that does not exist."""


class UnknownPresetError(NotFoundError):
    """The error for the name of a preset that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultState:
    """A fault rule in JSON form, and how often it has been applied.

    Attributes:
        name: name of the rule.
        rule: the rule in JSON form.
        matched: number of requests that match the conditions of the rule. A request to which an earlier rule was
            applied is not counted.
        applied: number of requests that the rule was applied to.
        holding: number of requests that the rule holds now.
        exhausted: whether the rule will not apply to any further request.
        warnings: possible mistakes in the rule: dicts with the keys ``path``, the place in the rule, and ``detail``, a
            sentence.
    """

    name: str
    rule: Mapping[str, Any]
    matched: int
    applied: int
    holding: int
    exhausted: bool
    warnings: tuple[Mapping[str, str], ...]

    @property
    def progress(self) -> str:
        """The counters as text for a message, such as "it has matched 2, was applied to 1 and holds 0 requests"."""
        return f"it has matched {self.matched}, was applied to {self.applied} and holds {self.holding} requests"

    def reaches(self, *, applied: int, holding: int) -> bool:
        """Return whether the rule was applied ``applied`` times or more, and holds ``holding`` requests or more."""
        return self.applied >= applied and self.holding >= holding

    def to_json(self) -> dict[str, Any]:
        """Return the rule as a JSON object. The counters and the warnings are added as keys, such as ``matched``."""
        return {
            **self.rule,
            "matched": self.matched,
            "applied": self.applied,
            "holding": self.holding,
            "exhausted": self.exhausted,
            "warnings": list(self.warnings),
        }


class FaultServer(Protocol):
    """The server that receives the requests to which the rules are applied.

    Attributes:
        clock: the broker's clock, which measures delays.
        router: the router of the requests.
    """

    @property
    def clock(self) -> BrokerTime: ...
    @property
    def router(self) -> Router: ...

    def perform(self, effects: Effects) -> None:
        """Carry out the effects of a change that was not caused by a request, such as the release of held requests."""
        ...


class FaultHandle:
    """The base class of handles of one fault rule. As a context manager, the handle removes the rule at the end of the
    block.

    After the rule was removed, ``release`` and all properties raise UnknownFaultError.

    Attributes:
        name: name of the rule.
    """

    def __init__(self, faults: FaultOperations[Any], name: str) -> None:
        self._faults = faults
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def state(self) -> FaultState:
        """The rule and its counters at this moment."""
        return self._faults.state(self.name)

    @property
    def matched(self) -> int:
        """The number of requests that match the conditions of the rule, without requests to which an earlier rule was
        applied.
        """
        return self.state.matched

    @property
    def applied(self) -> int:
        """The number of requests that the rule was applied to."""
        return self.state.applied

    @property
    def holding(self) -> int:
        """The number of requests that the rule holds now."""
        return self.state.holding

    @property
    def exhausted(self) -> bool:
        """Whether the rule will not apply to any further request."""
        return self.state.exhausted

    def release(self, count: int | None = None) -> int:
        """Release requests that the rule holds, the longest held first; return the number of released requests.

        Args:
            count: Maximum number of requests to release; None for all that are held now.
        """
        return self._faults.release(self.name, count)

    def remove(self) -> None:
        """Remove the rule, and release the requests that it holds or delays.

        Do nothing if the rule was removed before.
        """
        self._faults.remove(self.name)


class Fault(FaultHandle):
    """A fault rule of a ``Cluster``, for use in its trio run."""

    _faults: Faults

    async def wait_applied(self, timeout: float = WAIT_TIMEOUT, count: int = 1) -> FaultState:
        """Wait until the rule was applied ``count`` times in total; return its state.

        ``timeout``: maximum wait in seconds of real time.

        Raises: WaitTimeoutError after ``timeout``; UnknownFaultError if the rule was removed.
        """
        return await self._faults.wait(self.name, applied=count, timeout=timeout)

    async def wait_holding(self, timeout: float = WAIT_TIMEOUT, count: int = 1) -> FaultState:
        """Wait until the rule holds ``count`` requests at the same time; return its state.

        ``timeout``: maximum wait in seconds of real time.

        Raises: WaitTimeoutError after ``timeout``; UnknownFaultError if the rule was removed.
        """
        return await self._faults.wait(self.name, holding=count, timeout=timeout)


F = TypeVar("F", bound=FaultHandle)


class FaultOperations(Handle, Generic[F]):
    """The operations on fault rules that return immediately. Base class of the fault rules of ``Cluster`` and
    ``ThreadCluster``.
    """

    def _handle(self, name: str) -> F:
        """Return a handle of the rule with this name. Subclasses define it."""
        raise NotImplementedError

    def add(self, **options: Unpack[RuleOptions]) -> F:
        """Add a rule after the existing rules, and return a handle of the rule.

        If several rules apply to a request, only the first of them is applied.

        Args:
            options: Conditions, occurrence and action, as ``RuleOptions`` describes, such as ``api="OffsetCommit"``,
                ``error="REBALANCE_IN_PROGRESS"``, ``times=2``.

        Raises:
            InvalidRule: The rule is not valid. The message names each problem and the possible values.
            RuleExists: A rule of this name exists.
            TooManyRules: ``mockbroker.faults.max.rules`` is reached.
        """
        given: dict[str, Any] = dict(options)
        optional = bool(given.pop("optional", False))
        return self._handle(self.add_rule(rule_form(given), optional=optional).name)

    def error(self, api: ApiName | list[ApiName], error: ErrorName, **conditions: Unpack[RequestConditions]) -> F:
        """Add a rule that answers the matching elements of requests with an error; return a handle of the rule.

        Args:
            api: Kafka's name of the API, or several names.
            error: Kafka's name of the error.
            conditions: Conditions and occurrence, as ``RequestConditions`` describes.

        Raises: InvalidRule if the rule is not valid; RuleExists if a rule of this name exists; TooManyRules if
        ``mockbroker.faults.max.rules`` is reached.
        """
        return self.add(api=api, error=error, **conditions)

    def delay(
        self,
        api: ApiName | list[ApiName],
        delay_ms: int,
        *,
        jitter_ms: int = 0,
        when: Literal["before", "after"] = "before",
        **conditions: Unpack[RequestConditions],
    ) -> F:
        """Add a rule that delays requests before they are processed, or their responses; return a handle of the rule.

        Args:
            api: Kafka's name of the API, or several names.
            delay_ms: Delay in milliseconds of the broker's clock.
            jitter_ms: Upper bound of random milliseconds that are added.
            when: Whether the delay is before or after the request is processed.
            conditions: Conditions and occurrence, as ``RequestConditions`` describes.

        Raises: InvalidRule if the rule is not valid; RuleExists if a rule of this name exists; TooManyRules if
        ``mockbroker.faults.max.rules`` is reached.
        """
        return self.add(api=api, delay_ms=delay_ms, jitter_ms=jitter_ms, when=when, **conditions)

    def hold(
        self,
        api: ApiName | list[ApiName],
        *,
        when: Literal["before", "after"] = "before",
        **conditions: Unpack[RequestConditions],
    ) -> F:
        """Add a rule that holds requests, or their responses, until ``release``; return a handle of the rule.

        Args:
            api: Kafka's name of the API, or several names.
            when: Whether the request is held before or after it is processed.
            conditions: Conditions and occurrence, as ``RequestConditions`` describes.

        Raises: InvalidRule if the rule is not valid; RuleExists if a rule of this name exists; TooManyRules if
        ``mockbroker.faults.max.rules`` is reached.
        """
        return self.add(api=api, hold=True, when=when, **conditions)

    def disconnect(
        self,
        api: ApiName | list[ApiName],
        disconnect: Literal["before", "after", "mid-response"] = "before",
        *,
        reset: bool = False,
        **conditions: Unpack[RequestConditions],
    ) -> F:
        """Add a rule that closes the connection of requests; return a handle of the rule.

        Args:
            api: Kafka's name of the API, or several names.
            disconnect: Time at which the connection is closed: before or after the request is processed, or in the
                middle of the response.
            reset: Whether the connection is closed by a TCP reset.
            conditions: Conditions and occurrence, as ``RequestConditions`` describes.

        Raises: InvalidRule if the rule is not valid; RuleExists if a rule of this name exists; TooManyRules if
        ``mockbroker.faults.max.rules`` is reached.
        """
        return self.add(api=api, disconnect=disconnect, reset=reset, **conditions)

    def malform(
        self,
        api: ApiName | list[ApiName],
        malform: MalformName,
        parameters: Mapping[str, int | str] | None = None,
        **conditions: Unpack[RequestConditions],
    ) -> F:
        """Add a rule that sends malformed responses; return a handle of the rule.

        Args:
            api: Kafka's name of the API, or several names.
            malform: Kind of malformed response, as docs/faults.md lists them.
            parameters: Parameters of this kind of malformed response; None for the defaults.
            conditions: Conditions and occurrence, as ``RequestConditions`` describes.

        Raises: InvalidRule if the rule is not valid; RuleExists if a rule of this name exists; TooManyRules if
        ``mockbroker.faults.max.rules`` is reached.
        """
        return self.add(api=api, malform=malform, parameters=parameters or {}, **conditions)

    def preset(
        self, preset: PresetName, /, *, optional: bool = False, **parameters: Unpack[PresetParameters]
    ) -> list[str]:
        """Apply a preset: rules and changes to the cluster for a common failure; return the names of its rules.

        The preset ends after the time in its parameters, or when ``remove`` is called with its name. ``remove`` also
        undoes the preset's changes to the cluster: a stopped broker is started, and outdated metadata is replaced with
        current metadata. Lost records are not restored.

        Args:
            preset: name of the preset, such as ``"rebalance-storm"``.
            optional: whether the preset's rules may remain unapplied without failing the test.
            parameters: parameters of the preset, as docs/presets.md lists them.

        Raises:
            UnknownPresetError: There is no preset of this name.
            InvalidRule: A parameter is not valid. The message names each problem and the possible values.
            RuleExists: A rule or a preset of this name exists: use the parameter ``name``.
            TooManyRules: ``mockbroker.faults.max.rules`` is reached.
            FailoverError, UnknownTopicError, InternalTopicError: A change to the cluster is not possible.
        """
        return self.add_preset(preset, dict(parameters), optional=optional)

    @operation
    def presets(self) -> list[Preset]:
        """Return all presets that can be applied, with their descriptions and parameters."""
        return list(PRESETS.values())

    @operation
    def active_presets(self) -> list[str]:
        """Return the names of the presets whose rules or changes to the cluster are active."""
        return self._stage.scripts.names()

    @operation
    def add_preset(self, preset: str, form: object, *, optional: bool = False) -> list[str]:
        """Apply a preset with parameters in JSON form; return the names of its rules. See ``preset``.

        Args:
            preset: Name of the preset.
            form: The JSON object of the parameters.
            optional: Whether the preset's rules may remain unapplied without failing the test.
        """
        if (found := PRESETS.get(preset)) is None:
            raise UnknownPresetError(f"preset {preset} does not exist; existing presets: {', '.join(PRESETS)}")
        values = found.values(form)
        rules = [self._parsed(each) for each in found.build(values)]
        name, names = str(values["name"]), [rule.name for rule in rules]
        scripts = self._stage.scripts
        scripts.check(name)
        broker = self._server.router.broker
        phases = found.phases(values, sorted(broker.cluster.broker_ids))
        steps = [step_of(self._owner, broker, phase) for phase in phases]
        if names and (duration := values.get(DURATION)) is not None:
            end = partial(self._end_rules, names)
            steps.append(Step(0.0, duration / 1000, _nothing, end, ("", "the rules of the preset apply no more")))
        self._stage.add_all(rules)
        if optional:
            self._stage.optional.update(names)
        scripts.start(name, names, steps, self._now)
        return names

    @operation
    def add_rule(self, form: object, *, optional: bool = False) -> FaultState:
        """Add a rule in JSON form; return its state.

        Args:
            form: The rule as JSON: ``name``, ``match``, ``occurrence`` and ``action``.
            optional: Whether the rule may remain unapplied without failing the test.

        Raises: InvalidRule if the rule is not valid; RuleExists if a rule of this name exists; TooManyRules if
        ``mockbroker.faults.max.rules`` is reached.
        """
        active = self._stage.add(self._parsed(form))
        if optional:
            self._stage.optional.add(active.rule.name)
        return self._state_of(active)

    @operation
    def put_rule(self, name: str, form: object) -> FaultState:
        """Replace the rule with this name, or add it if it does not exist; return its state.

        The new rule has the position of the replaced rule; its counters begin at 0. Requests that the replaced rule
        holds or delays are released.

        Args:
            name: name of the rule.
            form: the rule as JSON: ``match``, ``occurrence`` and ``action``.

        Raises: InvalidRule if the rule is not valid; TooManyRules if ``mockbroker.faults.max.rules`` is reached.
        """
        active, effects = self._stage.replace(self._parsed(form, name), self._now)
        self._server.perform(effects)
        return self._state_of(active)

    @operation
    def state(self, name: str) -> FaultState:
        """Return the rule with this name, with its counters. Raises: UnknownFaultError if no rule has this name."""
        return self._state_of(self._active(name))

    @operation
    def states(self) -> list[FaultState]:
        """Return all rules and their counters, in the order in which they are tried."""
        return [self._state_of(active) for active in self._stage.rules]

    @operation
    def remove(self, name: str = "*") -> list[str]:
        """Remove rules, and release the requests that they hold or delay.

        Return the names of the removed rules ([] if no name matches).

        If ``name`` is the name of a preset, all rules of the preset are removed, and its changes to the cluster are
        undone, except for lost records.

        Args:
            name: name of the rules or presets. It may have the wildcards ``*`` and ``?``.
        """
        scripts = self._stage.scripts.remove(name, self._now)
        names, effects = self._stage.remove(name, self._now)
        for rule in (rule for script in scripts for rule in script.rules):
            more_names, more_effects = self._stage.remove(rule, self._now)
            names, effects = [*names, *more_names], [*effects, *more_effects]
        self._server.perform(effects)
        return names

    @operation
    def release(self, name: str, count: int | None = None) -> int:
        """Release requests that a rule holds, the longest held first. Return the number of released requests.

        Args:
            name: Name of the rule.
            count: Maximum number of requests to release; None for all requests that are held now.

        Raises: UnknownFaultError if no rule has this name; ValueError for a negative ``count``.
        """
        self._active(name)
        if count is not None and (not isinstance(count, int) or count < 0):
            raise ValueError(f"count is {count!r}: use an integer of at least 0, or None for all held requests")
        number, effects = self._stage.release(name, count, self._now)
        self._server.perform(effects)
        return number

    @operation
    def unused(self) -> list[FaultState]:
        """Return the rules that were never applied, including removed rules. Rules that were added with
        ``optional=True`` are left out.
        """
        return [self._state_of(active) for active in self._stage.unused()]

    # On the object that owns the rules:

    _stage: FaultStage
    _server: FaultServer
    _owner: ClusterOperations

    def _parsed(self, form: object, name: str = "") -> Rule:
        """Return the rule that a JSON object describes. The state of the cluster is not used.

        Args:
            form: The JSON object; a rule that was parsed before is returned unchanged.
            name: Name of the rule; "" for the name in ``form``.

        Raises: InvalidRule if the rule is not valid.
        """
        return form if isinstance(form, Rule) else parse_rule(form, HANDLERS, name)

    def _end_rules(self, names: list[str]) -> None:
        self._server.perform(self._stage.end(names, self._now))

    @property
    def _now(self) -> float:
        return self._server.clock.read()

    def _active(self, name: str) -> ActiveRule:
        active = self._stage.rules.get(name)
        if active is None:
            names = ", ".join(each.rule.name for each in self._stage.rules) or "none"
            raise UnknownFaultError(f"fault rule {name} does not exist; existing rules: {names}")
        return active

    def _state_of(self, active: ActiveRule) -> FaultState:
        counters, rule = active.counters, active.rule
        return FaultState(
            name=rule.name,
            rule=rule_to_json(rule),
            matched=counters.matched,
            applied=counters.applied,
            holding=self._stage.holding(rule.name),
            exhausted=counters.exhausted,
            warnings=tuple({"path": each.path, "detail": each.detail} for each in warnings(rule)),
        )


def _nothing() -> None:
    """Do nothing. A phase of a preset that makes no change at its start uses this function."""


class Faults(FaultOperations[Fault]):
    """The fault rules of a ``Cluster``, for use in its trio run."""

    def __init__(self, server: FaultServer, cluster: ClusterOperations, stage: FaultStage) -> None:
        self._server = server
        self._owner = cluster
        self._stage = stage
        self._waiting = trio.lowlevel.ParkingLot()
        self._stage.changed.append(self._waiting.unpark_all)

    def _handle(self, name: str) -> Fault:
        return Fault(self, name)

    async def wait(self, name: str, *, applied: int = 0, holding: int = 0, timeout: float = WAIT_TIMEOUT) -> FaultState:
        """Wait until a rule was applied to at least ``applied`` requests and holds at least ``holding``; return its
        state.

        Args:
            name: name of the rule.
            applied: minimum number of requests that the rule was applied to.
            holding: minimum number of requests that the rule holds at the same time.
            timeout: maximum wait in seconds of real time; the broker's clock does not affect the wait.

        Raises:
            WaitTimeoutError: The condition was not met within the timeout. The message shows the rule and the last
                events.
            UnknownFaultError: The rule does not exist, or was removed during the wait.
            ValueError: A number or the timeout is negative; TypeError if its type is wrong.
        """
        self._check_run()
        check_count("count of applied requests", applied)
        check_count("count of held requests", holding)
        check_timeout(timeout)
        with trio.move_on_after(timeout):
            while not (state := self.state(name)).reaches(applied=applied, holding=holding):
                await self._waiting.park()
            return state
        goal = f"to be applied {applied} times" if applied else f"to hold {holding} requests"
        state = self.state(name)
        raise WaitTimeoutError(
            "\n".join(
                [
                    f"timed out after {timeout:g} s waiting for fault rule {name} {goal}: {state.progress}",
                    f"rule: {dict(state.rule)}",
                    *event_report(list(self._server.router.journal.events)),
                ]
            )
        )
