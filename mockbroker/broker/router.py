"""The router: dispatches requests and due deadlines, and returns their outcomes. Deterministic, without I/O."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from kwire import APIS
from kwire.codec import encode_in_slices
from kwire.headers import request_header_version
from kwire.schema import Api, Versions
from mockbroker.base.effects import (
    Answer,
    Call,
    Close,
    Dismiss,
    Effects,
    NoReply,
    Note,
    Proceed,
    Reply,
    SendMore,
    Ticket,
    Unmute,
    Work,
)
from mockbroker.base.release import Release
from mockbroker.base.response_limit import ResponseTooLargeError
from mockbroker.base.timers import DismissDue, FetchDue, LoadDue, LossDue, ScriptDue, StageDue, SweepDue, TransactionDue
from mockbroker.broker import failover
from mockbroker.broker.authentication import Token
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.delayed_fetch import complete_delayed_fetches, complete_expired_fetch, complete_transaction
from mockbroker.broker.handlers import HANDLERS, api_versions
from mockbroker.broker.handlers.handler import Handler
from mockbroker.broker.journal import Journal
from mockbroker.broker.request_log import RequestLog
from mockbroker.broker.stages import Passage, Stage, answers

REQUEST_KEY = struct.Struct(">hh")  # the first fields of a request header: API key and version
FLEXIBLE_HEADER = 2  # first version of the request header with tagged fields


@dataclass(frozen=True, slots=True)
class Served:
    """A served version of an API.

    Attributes:
        api: The API.
        version: API version.
        flexible_header: Whether the request header has tagged fields.
    """

    api: Api
    version: int
    flexible_header: bool


@dataclass(frozen=True, slots=True)
class UnsupportedVersion:
    """The placeholder for an ApiVersions request in an unsupported version; the version in its ticket is 0."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The remaining work on a request that is handled in slices.

    Attributes:
        ticket: The request.
        resume: Function that does the next slice of the work: takes the broker time in seconds, returns the outcomes.
    """

    ticket: Ticket
    resume: Callable[[float], list[Outcome]]


Outcome: TypeAlias = Reply | NoReply | Close | Dismiss | Unmute | SendMore | Unfinished

NOT_LOGGED = frozenset({Token, UnsupportedVersion})  # placeholders of requests that are not decoded


class Router:
    """The dispatcher of requests to handlers and of due deadlines to their owners; converts their effects to outcomes.

    Attributes:
        broker: The state of the cluster.
        journal: The journal of group events.
        requests: The log of requests.
        handlers: The handlers by API key; ApiVersions advertises their versions.
        served: The served API versions by the first four bytes of a request: API key and version.
        outer_stages: The stages of all connections that run before those of the connection, by API key.
        noticing_stages: The stages that set deadlines (``StageDue``) or notice closed connections.
        stages: The stages of all connections that run after those of the connection.
    """

    def __init__(self, broker: Broker, journal: Journal, handlers: Mapping[int, Handler] = HANDLERS) -> None:
        self.journal = journal
        self.requests = RequestLog(journal.begin)
        self.handlers = handlers
        self.outer_stages: Mapping[int, tuple[Stage, ...]] = {}
        self.noticing_stages: tuple[Stage, ...] = ()
        self.stages: tuple[Stage, ...] = ()
        self._release: Release | None = None
        self._adapters = {key: handler.adapt_response for key, handler in handlers.items()}
        self._passages: dict[Ticket, Passage] = {}  # of pending requests that a stage watches or holds
        self.broker = self._attach(broker)

    def restart(self, broker: Broker, now: float) -> None:
        """Replace the broker state, and clear the journal and the request log. No request may be pending."""
        self._passages.clear()
        self.broker = self._attach(broker)
        self.journal.restart(now)
        self.requests.restart(now)

    def _attach(self, broker: Broker) -> Broker:
        if broker.release is not self._release:  # a reset cluster emulates the same release
            self._release = broker.release
            self._advertised, self.served = self._served_versions(broker.release)
        broker.advertised_versions = self._advertised
        broker.api_versions = {}
        return broker

    def _served_versions(self, release: Release) -> tuple[Mapping[int, Versions], dict[bytes, Served]]:
        """Return the versions that ApiVersions advertises, and the served versions by the first bytes of a request."""
        limited = {key: release.limit(key, handler.versions) for key, handler in self.handlers.items()}
        advertised = {key: versions for key, versions in limited.items() if versions is not None}
        served: dict[bytes, Served] = {}
        for key, versions in advertised.items():
            assert versions.last is not None
            for version in range(versions.first, versions.last + 1):
                if not release.refuses(key, version):
                    flexible_header = request_header_version(APIS[key], version) >= FLEXIBLE_HEADER
                    served[REQUEST_KEY.pack(key, version)] = Served(APIS[key], version, flexible_header)
        return advertised, served

    def serves(self, api_key: int, version: int) -> bool:
        """Return whether this version of an API is served."""
        return REQUEST_KEY.pack(api_key, version) in self.served

    def step(self, call: Call[Any], now: float, own: Sequence[Stage] = ()) -> list[Outcome]:
        """Handle a request, or its first slice; return the outcomes, also of other requests that were pending.

        Args:
            call: The request.
            now: The broker's time in seconds.
            own: The stages of the request's connection, which run between ``outer_stages`` and ``stages``.
        """
        kind = call.request.__class__
        if kind not in NOT_LOGGED:
            self.requests.record(call, now)
        effects: Effects
        outer = self.outer_stages.get(call.ticket.api_key, ())
        if own or self.stages or outer or kind is UnsupportedVersion:
            effects = self._pass_on(Passage(call, (*outer, *own, *self.stages)), now)
        else:
            try:
                effects = self.handlers[call.ticket.api_key].handle(self.broker, call, now)
            except ResponseTooLargeError as error:  # only in handlers that change nothing
                effects = [Close(call.ticket, str(error))]
        return self.finish(effects, now)

    def _pass_on(self, passage: Passage, now: float) -> Effects:
        """Call the next stages of a request, and its handler if all stages pass the request on."""
        effects = passage.go_on(now)
        held = effects is not None and not answers(effects, passage.call.ticket)
        if passage.watching or held:
            self._passages[passage.call.ticket] = passage
        return self._handle(passage.call, now) if effects is None else effects

    def _handle(self, call: Call[Any], now: float) -> Effects:
        if call.request.__class__ is UnsupportedVersion:
            return [Reply(call.ticket, api_versions.unsupported(self.broker))]
        try:
            return self.handlers[call.ticket.api_key].handle(self.broker, call, now)
        except ResponseTooLargeError as error:  # only in handlers that change nothing
            return [Close(call.ticket, str(error))]

    def run(self, outcomes: Iterable[Outcome], now: float) -> list[Outcome]:
        """Do all remaining slices of unfinished work at the time ``now``, and return all outcomes."""
        finished: list[Outcome] = []
        for outcome in outcomes:
            if isinstance(outcome, Unfinished):
                finished += self.run(outcome.resume(now), now)
            else:
                finished.append(outcome)
        return finished

    def _resume(self, work: Work, now: float) -> list[Outcome]:
        """Do the next slice of the work on a request; return the outcomes. The response is encoded in slices too."""
        self.requests.now = now
        try:
            return self.finish([*work.steps.send(now), work], now)
        except StopIteration as end:
            effects: Effects = end.value
        except ResponseTooLargeError as error:
            effects = [Close(work.ticket, str(error))]
        outcomes = self.finish(effects, now)
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, Reply) and outcome.ticket is work.ticket:
                encoding = encode_in_slices(outcome.response, work.ticket.version, self.broker.slice_size)
                outcomes[number] = Unfinished(work.ticket, partial(self._encode, outcome, encoding))
        return outcomes

    def _encode(self, reply: Reply, encoding: Generator[None, None, bytes], now: float) -> list[Outcome]:  # noqa: ARG002
        """Encode the next slice of a response."""
        try:
            next(encoding)
        except StopIteration as end:
            encoded = {} if reply.encoded is None else reply.encoded
            encoded[reply.ticket.version] = end.value
            return [Reply(reply.ticket, reply.response, encoded, reply.delivery)]
        return [Unfinished(reply.ticket, partial(self._encode, reply, encoding))]

    def deadline(self) -> float:
        """Return a lower bound of the next deadline in seconds; inf if there is none."""
        return min(self.broker.deadlines.next(), self.broker.client_deadlines.next())

    def tick(self, now: float, client_time: float | None = None) -> list[Outcome]:
        """Handle one due deadline, if there is one, and return the outcomes.

        The caller must repeat the call until ``deadline()`` is in the future.

        Args:
            now: The broker's time in seconds.
            client_time: The client time in seconds; None if it equals ``now``.
        """
        self.requests.now = now
        due = self.broker.deadlines.pop_due(now)
        if due is None:
            due = self.broker.client_deadlines.pop_due(now if client_time is None else client_time)
        match due:
            case str(group_id):
                return self.finish(self.broker.groups.tick(group_id, now), now)
            case FetchDue() as due:
                return self.finish(complete_expired_fetch(self.broker, due), now)
            case DismissDue(_, what):
                return self.finish([] if what is None else [what], now)
            case TransactionDue(transactional_id):
                return self.finish(
                    complete_transaction(self.broker, self.broker.transactions.tick(transactional_id, now)), now
                )
            case LoadDue(index):
                return self.finish(failover.complete_load(self.broker, index, now), now)
            case LossDue(node):
                return self.finish(failover.handle_broker_loss(self.broker, node, now), now)
            case StageDue(ticket):
                return self.finish(self._stage_due(ticket, now), now)
            case ScriptDue(_, run):
                if run is not None:
                    run(now)  # it delivers its own effects
                return self.finish([], now)
            case SweepDue():
                return self.finish(self.broker.groups.delete_expired_offsets(now), now)
            case None:
                return []

    def _stage_due(self, ticket: Ticket, now: float) -> Effects:
        return [effect for stage in self.noticing_stages for effect in stage.due(ticket, now)]

    def forget(self, ticket: Ticket) -> None:
        """Discard a request whose connection was closed. A pending JoinGroup or SyncGroup remains, as in Kafka."""
        if (passage := self._passages.get(ticket)) is not None and not passage.forget():
            del self._passages[ticket]
        self.broker.fetch_purgatory.remove(ticket)
        self.broker.client_deadlines.forget(FetchDue(ticket))
        self.broker.client_deadlines.forget(DismissDue(ticket))

    def forget_connection(self, number: int) -> None:
        """Notify the stages that a connection was closed. ``number``: number of the connection."""
        for stage in self.noticing_stages:
            stage.forget_connection(number)

    def finish(self, effects: Effects, now: float) -> list[Outcome]:
        """Return the outcomes of effects; record changed groups and notes, and adapt responses to their versions."""
        if (self.broker.groups.dirty or self.broker.appended_partitions) and (
            appended := self.broker.write_changes(now)
        ):
            effects = [*effects, *complete_delayed_fetches(self.broker, appended)]
        if self._passages:
            effects = self._process_answers(effects, now)
        if notes := self.broker.transactions.begun:
            effects = [*notes, *effects]
            notes.clear()
        outcomes: list[Outcome] = []
        for effect in effects:
            if isinstance(effect, Reply):
                ticket = effect.ticket
                adapt = self._adapters.get(ticket.api_key)
                if adapt is not None:
                    effect = Reply(ticket, adapt(effect.response, ticket.version), None, effect.delivery)
                outcomes.append(effect)
            elif isinstance(effect, Note):
                self.journal.record(effect, now)
            elif isinstance(effect, Work):
                outcomes.append(Unfinished(effect.ticket, partial(self._resume, effect)))
            elif isinstance(effect, Proceed):
                outcomes += self._proceed(effect, now)
            else:
                outcomes.append(effect)
        return outcomes

    def _proceed(self, proceed: Proceed, now: float) -> list[Outcome]:
        """Continue a request that a stage has held."""
        passage = self._passages.pop(proceed.ticket, None)
        if passage is None:  # its connection was closed
            return []
        if proceed.call is not None:
            passage.watch(proceed.call)
        return self.finish(self._pass_on(passage, now), now)

    def _process_answers(self, effects: Effects, now: float) -> Effects:
        """Pass each effect that answers a request to the stages that watch the request; return the final effects."""
        processed: Effects = []
        for effect in effects:
            if not isinstance(effect, Answer) or (passage := self._passages.pop(effect.ticket, None)) is None:
                processed.append(effect)
                continue
            answer = passage.process_answer([effect], now)
            processed += answer
            if not answers(answer, effect.ticket):  # held by a stage
                self._passages[effect.ticket] = passage
        return processed
