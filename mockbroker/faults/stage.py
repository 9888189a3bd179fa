"""The stage of request processing that applies fault rules to requests and new connections.

A stage is called before and after the handler of a request, and can change, delay or replace the request and its
response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Literal, TypeAlias
from uuid import UUID

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.errors import EncodeError
from kwire.json.objects import from_json
from kwire.lazy_dataclass import dataclass
from kwire.messages import APIS
from mockbroker.base.effects import (
    Answer,
    Call,
    Close,
    Delivery,
    Effects,
    NoReply,
    Note,
    Pace,
    Proceed,
    Reply,
    SendMore,
    Ticket,
    Unmute,
    with_request,
)
from mockbroker.base.errors import ConflictError, NotFoundError
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.timers import StageDue
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers import api_versions
from mockbroker.broker.router import NOT_LOGGED, Router
from mockbroker.broker.stages import Stage
from mockbroker.faults.affected import UNPROCESSED, Affected, AffectedRequests, Phase
from mockbroker.faults.errors import ErrorInjection
from mockbroker.faults.identifiers import GROUP, MEMBER_ID, PARTITION, TOPIC
from mockbroker.faults.lookups import broker_lookups
from mockbroker.faults.malformed import FORMS
from mockbroker.faults.malforming import malformed_in_slices
from mockbroker.faults.matching import Element, NewConnection, Subject, members_in, only_name
from mockbroker.faults.parsing import action_to_json
from mockbroker.faults.rule import (
    Bandwidth,
    Disconnect,
    Error,
    Evict,
    FailTls,
    Hold,
    Malform,
    NoResponse,
    Respond,
    Rule,
    Throttle,
)
from mockbroker.faults.rules import MAX_RULES, ActiveRule, Fault, Rules
from mockbroker.faults.script import Scripts
from mockbroker.faults.slice_counter import BytesInSlices
from mockbroker.groups.events import Evict as EvictMember

How: TypeAlias = Literal["serve", "mute", "close", "reset", "fail_tls"]
NEW_CONNECTION = -1  # API key in the ticket of a connection
SCRIPT_FAILURES = (ConflictError, NotFoundError, OSError)  # a broker that a test has stopped before; a port in use
PACE_INTERVAL = 0.05  # minimum seconds between two parts of a response that is sent slowly


def connection_ticket(number: int) -> Ticket:
    """Return a ticket that represents a whole connection, not a request. ``number``: number of the connection."""
    return Ticket(number, 0, NEW_CONNECTION, 0)


@dataclass(frozen=True, slots=True)
class Admission:
    """The decision of the fault rules about a new connection.

    Attributes:
        how: "serve" to serve its requests; "mute" to serve no request until the effect ``Unmute``; "close" to close it;
            "reset" to close it by a TCP reset; "fail_tls" to abort its TLS handshake.
        rule: Name of the rule, for the log.
    """

    how: How
    rule: str

    @property
    def refused(self) -> bool:
        """Whether the connection is closed immediately."""
        return self.how not in ("serve", "mute")


class FaultStage(Stage):
    """The stage of request processing that applies the fault rules of a cluster to requests and connections.

    A request is delayed or held at one of two points: before it is processed, or before its response is sent. If the
    client of a request that is held before processing disconnects, the request is still processed when it is released.
    A Kafka broker, too, processes the queued requests of a client that has disconnected.

    Args:
        router: The router, which calls the stage for APIs that have rules.
        principal: Function that returns the principal of a connection, by its number.

    Attributes:
        rules: The rules.
        changed: Functions that are called after rules were applied, ended or removed, after requests were held or
            released, and after ``stop``.
        optional: Names of rules that ``unused`` omits.
        scripts: The timed cluster changes of the active presets.
    """

    def __init__(self, router: Router, principal: Callable[[int], str]) -> None:
        self._router = router
        router.noticing_stages = (*router.noticing_stages, self)
        self._lookups = broker_lookups(lambda: router.broker, principal)
        self._affected = AffectedRequests()
        self.rules = Rules(router.broker.settings.mockbroker_faults_max_rules)
        self.changed: list[Callable[[], object]] = []
        self.optional: set[str] = set()
        self._removed: list[ActiveRule] = []  # rules that were removed and never applied
        self._together: dict[str, Sequence[ActiveRule]] = {}  # by rule, all rules of its preset
        self.scripts = Scripts(lambda: router.broker.deadlines, self._record_step, SCRIPT_FAILURES)

    # --- rules ---

    def add(self, rule: Rule) -> ActiveRule:
        """Add a rule and return it with its counters.

        Raises: RuleExists if a rule of this name exists; TooManyRules if the maximum number of rules is reached.
        """
        active = self.rules.add(rule)
        self._attach()
        return active

    def add_all(self, rules: Sequence[Rule]) -> list[ActiveRule]:
        """Add the rules of a preset, and return them with their counters.

        If one rule cannot be added, no rule is added.

        Raises: RuleExists if a rule of this name exists; TooManyRules if the maximum number of rules is reached.
        """
        added = self.rules.add_all(rules)
        self._together |= {active.rule.name: added for active in added}
        self._attach()
        return added

    def end(self, names: Iterable[str], now: float) -> Effects:
        """End rules: they are not applied to further requests, and the requests that they hold or delay are released.

        Args:
            names: Names of the rules.
            now: The broker's time in seconds.

        Returns: the effects that release the held requests, such as responses to send.
        """
        effects: Effects = []
        for name in names:
            if (active := self.rules.get(name)) is not None:
                active.counters.ended = True
                effects += self._end_waits(name, now)
        self._notify()
        return effects

    def replace(self, rule: Rule, now: float) -> tuple[ActiveRule, Effects]:
        """Replace the rule that has the same name, or add the rule.

        Release the requests that the replaced rule holds or delays. The new rule has the position of the replaced rule.

        Args:
            rule: The rule.
            now: The broker's time in seconds.

        Returns: the rule with its counters, and the effects that release the requests, such as responses to send.

        Raises: TooManyRules if the maximum number of rules is reached.
        """
        active = self.rules.replace(rule)
        effects = self._end_waits(rule.name, now)
        self._attach()
        return active, effects

    def remove(self, name: str, now: float) -> tuple[list[str], Effects]:
        """Remove the rules whose name matches a glob, and release the requests and connections that they hold or delay.

        A script whose rules have all been removed is removed too, without undoing its changes.

        Args:
            name: The glob.
            now: The broker's time in seconds.

        Returns: the names of the removed rules, and the effects that release the requests, such as responses to send.

        Raises: ValueError if the glob is not valid.
        """
        removed_rules = self.rules.remove(name)
        self._removed += [active for active in removed_rules if not active.counters.applied]
        del self._removed[:-MAX_RULES]
        known = {active.rule.name for active in self._removed}
        self._together = {key: each for key, each in self._together.items() if key in known or key in self.rules}
        names = [active.rule.name for active in removed_rules]
        self.scripts.forget_rules(self.rules)
        effects = [effect for removed in names for effect in self._end_waits(removed, now)]
        self._attach()
        self._notify()
        return names, effects

    def release(self, name: str, count: int | None, now: float) -> tuple[int, Effects]:
        """Release the requests and connections that a rule holds, the longest held first.

        If at least one is released, the journal gets an event.

        Args:
            name: Name of the rule.
            count: Maximum number of released requests; None for all that are held now.
            now: The broker's time in seconds.

        Returns:
            The number of released requests, and the effects that release them, such as responses to send.
        """
        entries = self._affected.held_by(name)[:count]
        effects: Effects = []
        for entry in entries:
            self._affected.remove(entry)
            if entry.call is None:
                effects.append(Unmute(entry.ticket))
            else:
                effects += [Proceed(entry.ticket)] if entry.effects is None else entry.effects
        self._record_release(name, len(entries), now)
        return len(entries), effects

    def _end_waits(self, name: str, now: float) -> Effects:
        """End everything for which a rule makes requests and connections wait: holds, delays, throttling, slow sending
        and slow reading.

        The rule was removed or replaced, or has ended. A delayed request gets the rest of the action at once, such as
        an error.

        Args:
            name: Name of the rule.
            now: The broker's time in seconds.

        Returns: the effects that release the requests and connections, such as responses to send.
        """
        delayed = self._affected.delayed_by(name)
        effects = self.release(name, None, now)[1]
        for entry in delayed:
            self._broker.deadlines.forget(StageDue(entry.ticket))
            if entry.pace is None:
                effects += self.due(entry.ticket, now)
            else:
                entry.pace.finished = True
                self._affected.remove(entry)
                effects.append(SendMore(entry.ticket))
        self._record_release(name, len(delayed), now)
        return effects

    def _record_release(self, name: str, count: int, now: float) -> None:
        """Add an event to the journal if a rule has released requests.

        Args:
            name: Name of the rule.
            count: Number of released requests.
            now: The broker's time in seconds.
        """
        if count:
            note = Note(event=EventKind.RELEASE, group="", reason=f"{count} released", fault=name)
            self._router.journal.record(note, now)
            self._notify()

    def unused(self) -> list[ActiveRule]:
        """Return the rules that were never applied, including removed rules. Rules in ``optional`` are omitted.

        A rule of a preset counts as applied if at least one rule of the preset was applied.
        """
        return [
            active
            for active in (*self._removed, *self.rules)
            if active.rule.name not in self.optional
            and not any(each.counters.applied for each in self._rules_with(active))
        ]

    def _rules_with(self, active: ActiveRule) -> Sequence[ActiveRule]:
        """Return all rules of the preset to which a rule belongs; only the rule itself if it belongs to no preset.

        ``active``: the rule.
        """
        together = self._together.get(active.rule.name, ())
        return together if active in together else (active,)

    def holding(self, name: str) -> int:
        """Return the number of requests and connections that a rule holds. ``name``: name of the rule."""
        return len(self._affected.held_by(name))

    def is_silent(self, number: int) -> bool:
        """Return whether a rule with the action ``no_response`` suppresses all further responses on a connection.

        ``number``: number of the connection.
        """
        return any(entry.phase is Phase.SILENT and entry.ticket.connection == number for entry in self._affected)

    def restart(self) -> None:
        """Remove all rules, scripts and affected requests, because the broker was replaced.

        The caller must have closed all connections.
        """
        self.rules = Rules(self._router.broker.settings.mockbroker_faults_max_rules)
        self._affected.clear()
        self._removed.clear()
        self._together.clear()
        self.scripts.clear()
        self.optional.clear()
        self._attach()

    def drop_requests(self) -> None:
        """Drop all delayed and held requests, because the simulated process of the brokers has crashed."""
        self._affected.clear()

    def stop(self, node: int) -> None:
        """Drop the delayed and held requests to a broker that stops. The caller must close the broker's connections.

        ``node``: id of the broker.
        """
        for entry in self._affected:
            if entry.node == node:
                self._affected.remove(entry)
        self._notify()

    def _attach(self) -> None:
        """Register the stage with the router, for the APIs to which a rule may apply."""
        self._router.outer_stages = dict.fromkeys(self.rules.keys, (self,))

    # --- requests ---

    def before(self, call: Call[Any], now: float) -> Effects | Call[Any] | None:
        if call.request.__class__ in NOT_LOGGED:
            return None
        fault = self.rules.first(call, self._lookups)
        if fault is None:
            return None
        entry = Affected(call.ticket, call.client.node, fault, call)
        self._affected.add(entry)
        if _needs_records(fault.rule):
            fault.active.counters.undo()  # until the records of the response are known
        elif not isinstance(fault.rule.action.effect, Error | Evict):  # else it is recorded when the effect is known
            self._record(fault, call, now)
        delay = fault.rule.action.delay
        if delay is not None and (delay.when == "before" or _is_never_processed(fault.rule)) and fault.delay_ms:
            self._delay(entry, Phase.DELAYED_BEFORE, now, fault.delay_ms / 1000)
            outcome: Effects | Call[Any] = []
        else:
            outcome = self._begin(entry, now)
        self._notify()
        return outcome

    def after(self, call: Call[Any], effects: Effects, now: float) -> Effects:
        entry = self._affected.get(call.ticket)
        if entry is None:
            return effects
        effects = self._answer(entry, effects, now)
        self._notify()
        return effects

    def due(self, ticket: Ticket, now: float) -> Effects:
        entry = self._affected.get(ticket)
        if entry is None:
            return []
        effects: Effects
        match entry.phase:
            case Phase.DELAYED_BEFORE if entry.call is None:
                effects = self._admit_later(entry)
            case Phase.DELAYED_BEFORE:
                entry.phase = Phase.PROCESSING
                effects = self._continue(entry, self._begin(entry, now))
            case Phase.DELAYED_AFTER:
                entry.phase = Phase.PROCESSING
                effects = self._deliver(entry, entry.effects or [], now)
            case Phase.MUTED:
                self._affected.remove(entry)
                effects = [Unmute(ticket)]
            case Phase.PACED:
                effects = self._send_more(entry, now)
            case _:
                effects = []
        self._notify()
        return effects

    def forget(self, ticket: Ticket) -> bool:
        entry = self._affected.get(ticket)
        if entry is None:
            return False
        limit = self._broker.settings.mockbroker_faults_max_held_requests
        if entry.phase in UNPROCESSED and entry.call is not None and len(self._affected) <= limit:
            return True
        if entry.pace is not None:
            entry.pace.finished = True
        self._affected.remove(entry)
        self._notify()
        return False

    def forget_connection(self, number: int) -> None:
        for entry in self._affected.of_connection(number):
            self._affected.remove(entry)
            self._notify()

    def _begin(self, entry: Affected, now: float) -> Effects | Call[Any]:
        """Carry out the part of an action that precedes the processing of the request.

        The delay of the rule has already passed.

        Args:
            entry: The request, with the rule that is applied to it.
            now: The broker's time in seconds.

        Returns: the request if it is processed next, possibly without the elements that get an error. Otherwise the
        effects, such as an error response; an empty list if the request waits or is never answered.
        """
        call, fault = entry.call, entry.fault
        assert call is not None
        name = entry.name
        match fault.rule.action.effect:
            case Error(error=error):
                return self._inject(entry, call, ErrorCode[error], now)
            case Respond() if _without_response(call):
                return self._answer(entry, [NoReply(call.ticket)], now)
            case Respond(respond=body):
                try:
                    reply = _reply(call.ticket, body)
                except EncodeError as error:
                    return self._answer(entry, [Close(call.ticket, f"fault rule {name}: {error}")], now)
                return self._answer(entry, [reply], now)
            case Disconnect(disconnect="before", reset=reset):
                self._affected.remove(entry)
                return [Close(call.ticket, f"fault rule {name}: disconnect before processing", reset)]
            case Hold(when="before") if self._may_wait(entry):
                return self._hold(entry, Phase.HELD_BEFORE)
            case NoResponse(when="before"):
                entry.phase = Phase.SILENT
                return []
            case Bandwidth(of="request", bytes_per_second=rate) if entry.effects is None and self._may_wait(entry):
                entry.effects = []  # the request is read once
                self._delay(entry, Phase.DELAYED_BEFORE, now, len(call.frame) / rate)
                return []
            case Evict():
                return self._evict(entry, call, now)
            case _:
                return call

    def _inject(self, entry: Affected, call: Call[Any], code: ErrorCode, now: float) -> Effects | Call[Any]:
        """Remove the elements that get an error from a request.

        If neither the request nor the response can have such an element, the rule does not count as applied.

        Args:
            entry: The request, with the rule that is applied to it.
            call: The request.
            code: The error.
            now: The broker's time in seconds.

        Returns: the request that is processed next; the effects with the error response if no element remains.
        """
        ticket = call.ticket
        injection = ErrorInjection(
            ticket.api_key, ticket.version, call.request, entry.fault.elements, code, self._lookups
        )
        if injection.is_certain:
            self._record(entry.fault, call, now)
        else:
            entry.fault.active.counters.undo()  # until the elements of the response are known
            if not injection.depends_on_response:
                return call
        rest = injection.split()
        if rest is None and _without_response(call):
            return self._answer(entry, [Close(ticket, _unanswerable(entry))], now)
        if rest is None and _is_unsupported(ticket, code):
            return self._answer(entry, [api_versions.refused(ticket)], now)
        if rest is None:
            return self._answer(entry, [Reply(ticket, injection.error_response())], now)
        entry.injection = injection
        return with_request(call, rest, injection.refused)

    def _evict(self, entry: Affected, call: Call[Any], now: float) -> Effects | Call[Any]:
        """Evict the members that a request names: the member that sent the request, or those that LeaveGroup removes.

        Members in elements that do not match the rule stay. The request is processed afterwards. If no group has such a
        member, the rule does not count as applied.

        Args:
            entry: The request, with the rule that is applied to it.
            call: The request.
            now: The broker's time in seconds.

        Returns: the request if no group has such a member; otherwise the effects of the evictions, followed by the
        effect that continues the request.
        """
        effects: Effects = []
        for group_id, member_id in members_in(Subject(call, self._lookups), entry.fault.elements):
            event = EvictMember(member_id=member_id, reason=_reason(entry))
            effects += self._broker.groups.receive(group_id, event, now)
        if not effects:
            entry.fault.active.counters.undo()
            return call
        self._record(entry.fault, call, now)
        return [*effects, Proceed(call.ticket, call)]

    def _continue(self, entry: Affected, outcome: Effects | Call[Any]) -> Effects:
        """Return the effects that resume a request after its delay or hold before processing.

        Args:
            entry: The request, with the rule that is applied to it.
            outcome: The request to process, or the effects to return instead of processing it.
        """
        return [Proceed(entry.ticket, outcome)] if isinstance(outcome, Call) else outcome

    def _answer(self, entry: Affected, effects: Effects, now: float) -> Effects:
        """Continue a request whose response is known: delay the response if the rule requires it, else carry out the
        action.

        Args:
            entry: The request, with the rule that is applied to it.
            effects: The effects of the request, including its response.
            now: The broker's time in seconds.

        Returns: the effects to carry out now; an empty list if the response is delayed, held or not sent at all.
        """
        delay = entry.fault.rule.action.delay
        if delay is not None and delay.when == "after" and entry.fault.delay_ms and self._may_wait(entry):
            entry.effects = effects
            self._delay(entry, Phase.DELAYED_AFTER, now, entry.fault.delay_ms / 1000)
            return []
        return self._deliver(entry, effects, now)

    def _deliver(self, entry: Affected, effects: Effects, now: float) -> Effects:
        """Carry out the part of an action that concerns the response.

        The delay of the rule has already passed.

        Args:
            entry: The request, with the rule that is applied to it.
            effects: The effects of the request, including its response.
            now: The broker's time in seconds.

        Returns: the effects to carry out now; an empty list if the response is held or not sent at all.
        """
        ticket, name = entry.ticket, entry.name
        may_slow = self._may_wait(entry) and any(isinstance(effect, Reply) for effect in effects)
        match entry.fault.rule.action.effect:
            case Hold(when="after") if self._may_wait(entry):
                entry.effects = effects
                return self._hold(entry, Phase.HELD_AFTER)
            case NoResponse(when="after"):
                entry.phase = Phase.SILENT
                return []
            case Disconnect(disconnect="after", reset=reset):
                self._affected.remove(entry)
                return [Close(ticket, f"fault rule {name}: disconnect after processing", reset)]
            case Throttle(throttle_ms=throttle_ms) if may_slow:
                self._delay(entry, Phase.MUTED, now, throttle_ms / 1000)
                return [_throttled(effect, throttle_ms) for effect in effects]
            case Bandwidth(of="response") if may_slow:
                entry.pace = Pace()
                entry.phase = Phase.PACED
                return [
                    *(_delivered(effect, Delivery(pace=entry.pace)) for effect in effects),
                    *self._send_more(entry, now),
                ]
        self._affected.remove(entry)
        return [self._changed(entry, effect, now) for effect in effects]

    def _changed(self, entry: Affected, effect: Any, now: float) -> Any:
        """Return one effect of a request. If the effect is the response, change it as the action requires.

        If a request without a response (acks=0) gets an error, or is disconnected in the middle of its response, return
        the effect that closes the connection.

        Args:
            entry: The request, with the rule that is applied to it.
            effect: The effect.
            now: The broker's time in seconds.
        """
        if not isinstance(effect, Reply):
            match entry.fault.rule.action.effect:
                case Disconnect(disconnect="mid-response", reset=reset) if isinstance(effect, NoReply):
                    return Close(entry.ticket, f"fault rule {entry.name}: disconnect after processing", reset)
            if entry.injection is None or not isinstance(effect, Answer):
                return effect
            return Close(entry.ticket, _unanswerable(entry))
        if entry.injection is not None:
            merged = self._merged(entry, entry.injection, effect.response, now)
            return Reply(effect.ticket, merged, delivery=effect.delivery)
        match entry.fault.rule.action.effect:
            case Disconnect(disconnect="mid-response", bytes=sent, reset=reset):
                reason = f"fault rule {entry.name}: disconnect mid-response"
                return _delivered(effect, Delivery(alter=partial(_cut, sent), close=reason, reset=reset))
            case Malform():
                return _delivered(effect, Delivery(alter=partial(self._malform, entry, now)))
        return effect

    def _merged(self, entry: Affected, injection: ErrorInjection, response: Any, now: float) -> Any:
        """Return a copy of a response with the errors of the rule.

        If the response lists no element that gets the error, the rule does not count as applied.

        Args:
            entry: The request, with the rule that is applied to it.
            injection: The errors.
            response: The response.
            now: The broker's time in seconds.
        """
        merged = injection.merge(response)
        if not injection.is_certain:  # else it is recorded already
            if not injection.was_merged or not entry.fault.active.counters.record_effect():
                return response
            self._record(entry.fault, entry.call, now)
        return merged

    def _malform(self, entry: Affected, now: float, frame: bytes) -> BytesInSlices:
        """Return a malformed response frame; the same frame if the form of malformed response cannot change it.

        If a rule about records changes nothing, the rule does not count as applied. The generator yields after a
        limited amount of work, so that other requests are handled in between.

        Args:
            entry: The request, with the rule that is applied to it.
            now: The broker's time in seconds.
            frame: The valid response frame.
        """
        effect, fault = entry.fault.rule.action.effect, entry.fault
        assert isinstance(effect, Malform)
        seed, affects = fault.rule.occurrence.seed, self._affects(fault.elements)
        key, version = entry.ticket.api_key, entry.ticket.version
        changed = yield from malformed_in_slices(
            effect.malform, effect.parameters, frame, key, version, seed, affects=affects
        )
        if _needs_records(fault.rule):
            if changed == frame or not fault.active.counters.record_effect():
                return frame
            self._record(fault, entry.call, now)
            self._notify()
        return changed

    def _affects(self, elements: Iterable[Element]) -> Callable[[str | UUID, int], bool] | None:
        """Return a function that returns whether a rule affects a partition; None if the rule affects all partitions.

        The arguments of the returned function are the name or id of a topic, and the index of a partition.

        ``elements``: the elements of the request that match the rule.
        """
        partitions: dict[str, set[int] | None] = {}  # None for all partitions of the topic
        for element in elements:
            topic, partition = element.values.get(TOPIC), element.values.get(PARTITION)
            if topic is None:
                return None
            indexes = partitions.setdefault(str(topic), set())
            if partition is None or indexes is None:
                partitions[str(topic)] = None
            else:
                indexes.add(int(partition))

        def affects(topic: str | UUID, partition: int) -> bool:
            name = self._lookups.topic_name(topic) if isinstance(topic, UUID) else topic
            indexes = partitions.get(name or "", set())
            return indexes is None or partition in indexes

        return affects

    def _may_wait(self, entry: Affected) -> bool:
        """Return whether the rule of a request or connection still exists, so that it can be held or delayed.

        The rule may have been removed or replaced, or may have ended, during a delay or while the request was
        processed. ``entry``: the request or connection, with the applied rule.
        """
        active = entry.fault.active
        return self.rules.get(entry.name) is active and not active.counters.ended

    def _hold(self, entry: Affected, phase: Phase) -> Effects:
        settings, affected = self._router.broker.settings, self._affected
        number, size = settings.mockbroker_faults_max_held_requests, settings.mockbroker_faults_max_held_bytes
        if affected.held >= number or affected.held_bytes + entry.size > size:
            self._affected.remove(entry)
            return [
                Close(
                    entry.ticket,
                    f"fault rule {entry.name} cannot hold the request: {affected.held} requests with "
                    f"{affected.held_bytes} bytes are held, and the limits are mockbroker.faults.max.held.requests "
                    f"({number}) and mockbroker.faults.max.held.bytes ({size})",
                )
            ]
        affected.hold(entry, phase)
        return []

    def _delay(self, entry: Affected, phase: Phase, now: float, seconds: float) -> None:
        entry.phase = phase
        self._broker.deadlines.set(StageDue(entry.ticket), now + seconds)

    def _send_more(self, entry: Affected, now: float) -> Effects:
        """Allow the connection to send the next bytes of a slow response, and schedule the bytes after them.

        Return the effect ``SendMore``; an empty list if all bytes were sent or the connection was closed.

        Args:
            entry: The request, with the rule that is applied to it.
            now: The broker's time in seconds.
        """
        effect, pace = entry.fault.rule.action.effect, entry.pace
        assert isinstance(effect, Bandwidth)
        assert pace is not None
        if pace.finished:
            self._affected.remove(entry)
            return []
        rate = effect.bytes_per_second
        size = max(1, round(rate * PACE_INTERVAL))
        pace.allowed += size
        self._delay(entry, Phase.PACED, now, size / rate)
        return [SendMore(entry.ticket)]

    # --- connections ---

    def admit(self, number: int, connection: NewConnection, now: float) -> Admission | None:
        """Apply the rules for new connections. Return None if no rule applies: the connection is then served as usual.

        Args:
            number: Number of the connection.
            connection: The connection.
            now: The broker's time in seconds.
        """
        fault = self.rules.first_for_connection(connection)
        if fault is None:
            return None
        entry = Affected(connection_ticket(number), connection.node, fault)
        self._affected.add(entry)
        self._record(fault, None, now)
        if fault.delay_ms:
            self._delay(entry, Phase.DELAYED_BEFORE, now, fault.delay_ms / 1000)
            admission = Admission("mute", fault.rule.name)
        else:
            admission = self._admission(entry)
        self._notify()
        return admission

    def _admission(self, entry: Affected) -> Admission:
        """Carry out the action of a rule on a new connection, and return the decision about the connection.

        The delay of the rule has already passed. ``entry``: the connection, with the applied rule.
        """
        name = entry.name
        match entry.fault.rule.action.effect:
            case NoResponse():
                entry.phase = Phase.SILENT
                return Admission("mute", name)
            case Hold() if not self._may_wait(entry):
                how: How = "serve"
            case Hold() if not self._hold(entry, Phase.HELD_BEFORE):
                return Admission("mute", name)
            case Disconnect(reset=True):
                how = "reset"
            case FailTls():
                how = "fail_tls"
            case None:  # only a delay
                how = "serve"
            case _:
                how = "close"
        self._affected.remove(entry)
        return Admission(how, name)

    def _admit_later(self, entry: Affected) -> Effects:
        """Carry out the action of a rule on a connection whose delay is over. Return the effects, such as closing the
        connection.

        The result is [] if the connection remains muted. ``entry``: the connection, with the applied rule.
        """
        admission = self._admission(entry)
        if admission.how == "mute":
            return []
        if admission.how == "serve":
            return [Unmute(entry.ticket)]
        how = admission.how
        return [Close(entry.ticket, f"fault rule {entry.name}", reset=how == "reset", alert=how == "fail_tls")]

    # --- reports ---

    @property
    def _broker(self) -> Broker:
        return self._router.broker

    def _record(self, fault: Fault, call: Call[Any] | None, now: float) -> None:
        """Record an applied rule: add an event to the journal, and the name of the rule to the request log.

        Args:
            fault: The rule and the matching elements.
            call: The request; None for a connection.
            now: The broker's time in seconds.
        """
        if call is not None:
            call.ticket.fault = fault.rule.name
        action = ", ".join(f"{key} {value}" for key, value in action_to_json(fault.rule.action).items())
        subject = "new connection" if call is None else APIS[call.ticket.api_key].name
        group = member_id = ""
        if call is not None:
            named = Subject(call, self._lookups), fault.elements
            group = _text(call.request, "group_id") or only_name(*named, GROUP)
            member_id = _text(call.request, "member_id") or only_name(*named, MEMBER_ID)
        note = Note(
            event=EventKind.FAULT,
            group=group,
            member_id=member_id,
            client_id="" if call is None else call.client.client_id,
            reason=f"{subject}: {action}",
            fault=fault.rule.name,
        )
        self._router.journal.record(note, now)

    def _record_step(self, name: str, what: str, now: float) -> None:
        """Add an event about a cluster change of a preset to the journal.

        Args:
            name: Name of the preset.
            what: Description of the change.
            now: The broker's time in seconds.
        """
        self._router.journal.record(Note(event=EventKind.FAULT, group="", reason=what, fault=name), now)

    def _notify(self) -> None:
        for changed in self.changed:
            changed()


def _without_response(call: Call[Any]) -> bool:
    """Return whether a request has no response, such as a Produce with acks=0."""
    return call.ticket.api_key == ApiKey.PRODUCE and call.request.acks == 0


def _reply(ticket: Ticket, body: Mapping[str, Any]) -> Reply:
    """Return the effect of sending a response.

    Args:
        ticket: Identity of the request.
        body: The response in JSON form.

    Raises: EncodeError if the version has no such response.
    """
    response = from_json(APIS[ticket.api_key].response, body, ticket.version)
    if _is_unsupported(ticket, getattr(response, "error_code", ErrorCode.NONE)):
        return api_versions.in_version_0(ticket, response)
    return Reply(ticket, response)


def _is_unsupported(ticket: Ticket, code: int) -> bool:
    """Return whether a response is that to an ApiVersions request in an unsupported version.

    Args:
        ticket: Identity of the request.
        code: Error code of the response.
    """
    return ticket.api_key == ApiKey.API_VERSIONS and code == ErrorCode.UNSUPPORTED_VERSION


def _is_never_processed(rule: Rule) -> bool:
    """Return whether a rule closes the connection of a request before it is processed, so that nothing comes after."""
    effect = rule.action.effect
    return isinstance(effect, Disconnect) and effect.disconnect == "before"


def _needs_records(rule: Rule) -> bool:
    """Return whether the action of a rule has an effect only on responses that contain records."""
    effect = rule.action.effect
    return isinstance(effect, Malform) and FORMS[effect.malform].part == "records"


def _unanswerable(entry: Affected) -> str:
    """Return the reason for closing the connection of a request without a response (acks=0) that got an error.

    Kafka closes the connection too. ``entry``: the request, with the applied rule.
    """
    return f"{_reason(entry)}: an error in a request without response"


def _reason(entry: Affected) -> str:
    """Return a text with the name of the rule and its fault, for the log and the journal.

    ``entry``: the request, with the applied rule.
    """
    return f"fault rule {entry.name}"


def _text(request: Any, field: str) -> str:
    value = getattr(request, field, None)
    return value if isinstance(value, str) else ""


def _cut(size: int | None, frame: bytes) -> BytesInSlices:
    """Return the first bytes of a frame. ``size``: number of bytes; None for half of the frame."""
    return frame[: len(frame) // 2 if size is None else size]
    yield  # a generator, as every ``Delivery.alter``


def _delivered(effect: Any, delivery: Delivery) -> Any:
    """Return an effect; if it is a response, return a copy that is sent as ``delivery`` specifies."""
    return Reply(effect.ticket, effect.response, effect.encoded, delivery) if isinstance(effect, Reply) else effect


def _throttled(effect: Any, throttle_ms: int) -> Any:
    """Return an effect; if it is a response, return a copy with a throttle time. The connection is muted for this time.

    A throttle time that the response already has is only increased. ``throttle_ms``: the throttle time in milliseconds.
    """
    if not isinstance(effect, Reply):
        return effect
    response: Any = copy(effect.response)  # it may be cached
    response.throttle_time_ms = max(response.throttle_time_ms, throttle_ms)
    return Reply(effect.ticket, response, delivery=Delivery(mute=True))
