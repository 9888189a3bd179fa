"""One step of the whole broker: a call or the passing of time goes in, effects come out. Deterministic, without IO."""

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
from mockbroker.base.effects import Call, Close, Dismiss, Effects, NoReply, Note, Reply, Ticket, Work
from mockbroker.base.release import Release
from mockbroker.base.response_limit import ResponseTooLargeError
from mockbroker.base.timers import DismissDue, FetchDue, LoadDue, LossDue, SweepDue, TransactionDue
from mockbroker.broker import failover
from mockbroker.broker.authentication import Token
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.delayed_fetch import complete_delayed_fetches, complete_expired_fetch, complete_transaction
from mockbroker.broker.handlers import HANDLERS, api_versions
from mockbroker.broker.handlers.handler import Handler
from mockbroker.broker.journal import Journal
from mockbroker.broker.request_log import RequestLog
from mockbroker.broker.stages import Stage, run_after, run_before

REQUEST_KEY = struct.Struct(">hh")  # how a request begins: API key and version
FLEXIBLE_HEADER = 2  # the version from which request headers have flexible_header fields


@dataclass(frozen=True, slots=True)
class Served:
    """One version of an API that has a handler. ``flexible_header``: its request header has tagged fields."""

    api: Api
    version: int
    flexible_header: bool


@dataclass(frozen=True, slots=True)
class UnsupportedVersion:
    """Stands for the request of an ApiVersions call in a version that is not served; its ticket says version 0."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The rest of a request that is handled in slices. ``resume``: does the next slice, at this time."""

    ticket: Ticket
    resume: Callable[[float], list[Outcome]]


Outcome: TypeAlias = Reply | NoReply | Close | Dismiss | Unfinished

NOT_LOGGED = frozenset({Token, UnsupportedVersion})  # what stands for a request that was not decoded


class Router:
    """Dispatches requests and deadlines to handlers, and finishes their effects.

    handlers: what is served; ApiVersions advertises just that
    served: the same by the head of a request
    stages: what requests of all connections pass
    """

    def __init__(self, broker: Broker, journal: Journal, handlers: Mapping[int, Handler] = HANDLERS) -> None:
        self.journal = journal
        self.requests = RequestLog(journal.begin)
        self.handlers = handlers
        self.stages: tuple[Stage, ...] = ()
        self._release: Release | None = None
        self._adapters = {key: handler.adapt_response for key, handler in handlers.items()}
        self._passed: dict[Ticket, tuple[Call[Any], Sequence[Stage]]] = {}  # stages that pending requests have passed
        self.broker = self._attach(broker)

    def restart(self, broker: Broker, now: float) -> None:
        """Go on with another broker, journal and request log empty. Nobody may wait for an answer of the old one."""
        self._passed.clear()
        self.broker = self._attach(broker)
        self.journal.restart(now)
        self.requests.restart(now)

    def _attach(self, broker: Broker) -> Broker:
        if broker.release is not self._release:  # whoever starts over is like the same release as before
            self._release = broker.release
            self._advertised, self.served = self._served_versions(broker.release)
        broker.advertised_versions = self._advertised
        broker.api_versions = {}
        return broker

    def _served_versions(self, release: Release) -> tuple[Mapping[int, Versions], dict[bytes, Served]]:
        """What ApiVersions tells of each API, and what is served by the head of a request."""
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
        """True if a request of this API and version has a handler."""
        return REQUEST_KEY.pack(api_key, version) in self.served

    def step(self, call: Call[Any], now: float, own: Sequence[Stage] = ()) -> list[Outcome]:
        """Handle a request, or the first slice of it; the effects may answer others that were pending.

        ``own``: the stages of its connection; those of all connections come after them.
        """
        stages = (*own, *self.stages) if own or self.stages else ()
        kind = call.request.__class__
        if kind not in NOT_LOGGED:
            self.requests.record(call, now)
        effects: Effects | None
        if stages:
            passed, effects = run_before(stages, call, now)
            self._passed[call.ticket] = call, stages[:passed]
            if effects is not None:
                return self.finish(effects, now)
        if kind is UnsupportedVersion:
            return self.finish([Reply(call.ticket, api_versions.unsupported(self.broker))], now)
        try:
            effects = self.handlers[call.ticket.api_key].handle(self.broker, call, now)
        except ResponseTooLargeError as error:  # of an API that only reads
            effects = [Close(call.ticket, str(error))]
        return self.finish(effects, now)

    def run(self, outcomes: Iterable[Outcome], now: float) -> list[Outcome]:
        """The outcomes once all that is unfinished is done, for callers that have no other requests to handle."""
        found: list[Outcome] = []
        for outcome in outcomes:
            if isinstance(outcome, Unfinished):
                found += self.run(outcome.resume(now), now)
            else:
                found.append(outcome)
        return found

    def _resume(self, work: Work, now: float) -> list[Outcome]:
        """Do the next slice of the work on a request. The answer to it is encoded in slices as well."""
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
        """Encode the next slice of an answer."""
        try:
            next(encoding)
        except StopIteration as end:
            encoded = {} if reply.encoded is None else reply.encoded
            encoded[reply.ticket.version] = end.value
            return [Reply(reply.ticket, reply.response, encoded)]
        return [Unfinished(reply.ticket, partial(self._encode, reply, encoding))]

    def deadline(self) -> float:
        """When ``tick`` has something to do, in seconds; inf for never. It may be early, never late."""
        return min(self.broker.deadlines.next(), self.broker.client_deadlines.next())

    def tick(self, now: float, client_time: float | None = None) -> list[Outcome]:
        """One thing that is due, or nothing; call it until the deadline lies ahead.

        ``client_time``: the time of the clients, where it is another.
        """
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
            case SweepDue():
                return self.finish(self.broker.groups.sweep(now), now)
            case None:
                return []

    def forget(self, ticket: Ticket) -> None:
        """Whoever waits for this answer has gone. A parked JoinGroup stays parked: a group does not see connections."""
        self._passed.pop(ticket, None)
        self.broker.fetch_purgatory.remove(ticket)
        self.broker.client_deadlines.forget(FetchDue(ticket))
        self.broker.client_deadlines.forget(DismissDue(ticket))

    def finish(self, effects: Effects, now: float) -> list[Outcome]:
        """Write down what changed in groups and what happened, and give each answer the form that its version wants."""
        if (self.broker.groups.touched or self.broker.appended_partitions) and (
            appended := self.broker.write_changes(now)
        ):
            effects = [*effects, *complete_delayed_fetches(self.broker, appended)]
        if self._passed:
            effects = self._after(effects, now)
        found: list[Outcome] = []
        for effect in effects:
            if isinstance(effect, Reply):
                ticket = effect.ticket
                adapt = self._adapters.get(ticket.api_key)
                if adapt is not None:
                    effect = Reply(ticket, adapt(effect.response, ticket.version))
                found.append(effect)
            elif isinstance(effect, Note):
                self.journal.record(effect, now)
            elif isinstance(effect, Work):
                found.append(Unfinished(effect.ticket, partial(self._resume, effect)))
            else:
                found.append(effect)
        return found

    def _after(self, effects: Effects, now: float) -> Effects:
        """The effects after the stages that the requests which they answer have passed."""
        found: Effects = []
        for effect in effects:
            if isinstance(effect, Note | Work) or (passed := self._passed.pop(effect.ticket, None)) is None:
                found.append(effect)
            else:
                call, stages = passed
                found += run_after(stages, call, [effect], now)
        return found
