"""The router, which passes requests to their handlers and due deadlines to their owners.

The router is deterministic and does no I/O.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from kwire import APIS
from kwire.headers import request_header_version
from kwire.lazy_dataclass import dataclass
from kwire.schema import NO_VERSIONS, Api, Versions
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
    Token,
    Unmute,
    Work,
)
from mockbroker.base.release import TELEMETRY, Release
from mockbroker.base.response_limit import ResponseTooLargeError
from mockbroker.base.timers import (
    CatchUpDue,
    CompactionDue,
    ConnectionDue,
    DismissDue,
    FetchDue,
    LoadDue,
    LossDue,
    MoveDue,
    ProducersDue,
    RetentionDue,
    ScriptDue,
    ShareDisconnectDue,
    ShareFetchDue,
    ShareLockDue,
    StageDue,
    SweepDue,
    TokenSweepDue,
    TransactionalIdsDue,
    TransactionDue,
)
from mockbroker.broker import failover, reassignments
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.completion import complete_delayed_fetches, complete_expired_fetch, complete_transaction
from mockbroker.broker.handlers import HANDLERS
from mockbroker.broker.handlers.api_versions import unsupported
from mockbroker.broker.handlers.handler import Handler
from mockbroker.broker.journal import Journal
from mockbroker.broker.request_log import RequestLog
from mockbroker.broker.request_reader import RequestReader, native_reader
from mockbroker.broker.sliced_responses import encoded
from mockbroker.broker.stages import Passage, Stage, answers
from mockbroker.security.identity import UNKNOWN, Identity
from mockbroker.topics.log_dirs import Replica

REQUEST_KEY = struct.Struct(">hh")  # the first fields of a request header: API key and version
FLEXIBLE_HEADER = 2  # first version of the request header with tagged fields


@dataclass(frozen=True, slots=True)
class Served:
    """An API version that the cluster serves.

    Attributes:
        api: The API.
        version: API version.
        flexible_header: Whether the request header has tagged fields.
    """

    api: Api
    version: int
    flexible_header: bool


class ServedVersions(dict[bytes, Served | None]):
    """The served API versions, by the first four bytes of a request: API key and version.

    The value is None for a version that is not served.

    A version is added at its first lookup, because adding a version imports the messages of its API.

    Args:
        advertised: API key -> versions that ApiVersions advertises.
        release: the emulated Kafka release.
    """

    def __init__(self, advertised: Mapping[int, Versions], release: Release) -> None:
        super().__init__()
        self._advertised = advertised
        self._release = release

    def __missing__(self, first_bytes: bytes) -> Served | None:
        if len(first_bytes) != REQUEST_KEY.size:
            return None
        key, version = REQUEST_KEY.unpack(first_bytes)
        if version not in self._advertised.get(key, NO_VERSIONS) or self._release.refuses(key, version):
            return None
        flexible_header = request_header_version(APIS[key], version) >= FLEXIBLE_HEADER
        served = self[first_bytes] = Served(APIS[key], version, flexible_header)
        return served


@dataclass(frozen=True, slots=True)
class UnsupportedVersion:
    """The substitute for an ApiVersions request that cannot be decoded, because its version is not supported.

    The ticket (the object that identifies the request) has version 0, because the response has version 0.
    """


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The remaining work on a request that is handled in slices (parts of limited size).

    Attributes:
        ticket: Identity of the request.
        resume: Function that handles the next slice. Its argument is the broker's time in seconds; it returns the
            outcomes, such as the encoded response.
    """

    ticket: Ticket
    resume: Callable[[float], list[Outcome]]


Outcome: TypeAlias = Reply | NoReply | Close | Dismiss | Unmute | SendMore | Unfinished

NOT_LOGGED = frozenset({Token, UnsupportedVersion})  # placeholders of requests that are not decoded


class Router:
    """The router, which calls the handlers of requests and the owners of due deadlines.

    A handler returns effects, such as a response message. The router returns outcomes, such as the encoded response,
    for the connections.

    Attributes:
        broker: The state of the cluster.
        journal: The journal of events.
        requests: The log of requests.
        handlers: The handlers by API key; ApiVersions advertises their versions.
        served: The served API versions by the first four bytes of a request: API key and version.
        request_reader: The native reader of usual requests; None without the native engine.
        outer_stages: API key -> stages of all connections that run before the stages of the single connection.
        noticing_stages: The stages that must be notified of due deadlines (``StageDue``) and closed connections.
        stages: The stages of all connections that run after the stages of the single connection.
        authorizing_stages: API key -> stages that run after the stages of the single connection and before ``stages``.
        identity: Function that returns the identity of the client of a connection, by the number of the connection.
    """

    def __init__(self, broker: Broker, journal: Journal, handlers: Mapping[int, Handler] = HANDLERS) -> None:
        self.journal = journal
        self.requests = RequestLog(journal.begin)
        self.handlers = handlers
        self.outer_stages: Mapping[int, tuple[Stage, ...]] = {}
        self.noticing_stages: tuple[Stage, ...] = ()
        self.stages: tuple[Stage, ...] = ()
        self.authorizing_stages: Mapping[int, tuple[Stage, ...]] = {}
        self.identity: Callable[[int], Identity] = lambda _: UNKNOWN
        self._release: Release | None = None
        self._passages: dict[Ticket, Passage] = {}  # of pending requests that a stage watches or holds
        self.broker = self._attach(broker)

    def restart(self, broker: Broker, now: float) -> None:
        """Replace the state of the cluster, and clear the journal and the request log. No request may be pending.

        Args:
            broker: The state of the cluster.
            now: The broker's time in seconds.
        """
        self._passages.clear()
        self.broker = self._attach(broker)
        self.journal.restart(now)
        self.requests.restart(now)

    def _attach(self, broker: Broker) -> Broker:
        if broker.release is not self._release:  # a reset cluster emulates the same release
            self._release = broker.release
            off: Collection[int] = () if broker.settings.mockbroker_client_telemetry_enable else TELEMETRY
            self._advertised = self._advertised_versions(broker.release, off)
            self.served = ServedVersions(self._advertised, broker.release)
            served = self.served
            self.request_reader: RequestReader | None = native_reader(
                lambda key, version: served[REQUEST_KEY.pack(key, version)]
            )
        broker.advertised_versions = self._advertised
        broker.api_versions = {}
        broker.identity = lambda number: self.identity(number)
        return broker

    def principal(self, number: int) -> str:
        """Return the principal of a connection. ``number``: number of the connection."""
        return self.identity(number).principal

    def _advertised_versions(self, release: Release, off: Collection[int]) -> dict[int, Versions]:
        """Return the versions that ApiVersions advertises, by API key.

        Args:
            release: The emulated Kafka release.
            off: Keys of APIs that are not served.
        """
        limited = {key: release.limit(key, each.versions) for key, each in self.handlers.items() if key not in off}
        return {key: versions for key, versions in limited.items() if versions is not None}

    def serves(self, api_key: int, version: int) -> bool:
        """Return whether the cluster serves a version of an API.

        Args:
            api_key: API key.
            version: API version.
        """
        return self.served[REQUEST_KEY.pack(api_key, version)] is not None

    def step(self, call: Call[Any], now: float, own: Sequence[Stage] = ()) -> list[Outcome]:
        """Handle a request; of a large request, only the first slice (part of limited size).

        Return the outcomes, such as encoded responses, of this request and of all pending requests that this request
        completes.

        Args:
            call: The request, its client, and its ticket (the object that identifies the request).
            now: The broker's time in seconds.
            own: The stages of the request's connection, which run between ``outer_stages`` and ``stages``.
        """
        kind, key = call.request.__class__, call.ticket.api_key
        if decoded := kind not in NOT_LOGGED:
            self.requests.record(call, now)
        stages = self.stages
        if own or self.outer_stages or self.authorizing_stages:
            stages = self._stages_of(call, own)
        processing: Stage | None = None  # a stage that processes just the answer
        if stages or not decoded:
            if len(stages) == 1 and decoded and (key in stages[0].unchanged or stages[0].only_processes_answer(call)):
                processing = stages[0]
            else:
                return self.finish(self._pass_on(Passage(call, stages), now), now)
        effects: Effects
        try:
            effects = self.handlers[key].handle(self.broker, call, now)
        except ResponseTooLargeError as error:  # only in handlers that change nothing
            effects = [Close(call.ticket, str(error))]
        if processing is not None:
            effects = self._process_answer(call, processing, effects, now)
        return self.finish(effects, now)

    def _stages_of(self, call: Call[Any], own: Sequence[Stage]) -> tuple[Stage, ...]:
        """Return the stages that a request passes, in order. ``own``: the stages of the request's connection."""
        key = call.ticket.api_key
        authorizing = self.authorizing_stages.get(key, ())
        if authorizing and not own and authorizing[0].passes(call):
            authorizing = authorizing[1:]
        outer = self.outer_stages.get(key, ())
        return (*outer, *own, *authorizing, *self.stages) if outer or own or authorizing else self.stages

    def _pass_on(self, passage: Passage, now: float) -> Effects:
        """Pass a request through the next stages. If no stage answers or holds the request, call its handler.

        Args:
            passage: The progress of the request through its stages.
            now: The broker's time in seconds.

        Returns: the effects, such as responses.
        """
        effects = passage.pass_on(now)
        if effects is None and passage.only_processes_answer:
            call = passage.call
            return self._process_answer(call, passage.watching[0], self._handle(call, now), now, passage)
        held = effects is not None and not answers(effects, passage.call.ticket)
        if passage.watching or held:
            self._passages[passage.call.ticket] = passage
        return self._handle(passage.call, now) if effects is None else effects

    def _process_answer(
        self, call: Call[Any], stage: Stage, effects: Effects, now: float, passage: Passage | None = None
    ) -> Effects:
        """Let a stage process the answer to a request: the response, or the end of a request without response.

        Only this stage processes the answer.

        Args:
            call: the request.
            stage: the stage.
            effects: the effects of the handler. If they contain no answer, the stage processes the answer when it is
                available.
            now: the broker's time in seconds.
            passage: the progress of the request through its stages; None if the request has only this stage.

        Returns: the effects; the answer among them has been processed.
        """
        if len(effects) == 1:
            answer = effects[0]
            if isinstance(answer, (Reply, NoReply)) and answer.ticket is call.ticket:
                return [stage.process_response(call, answer, now)]
        self._passages[call.ticket] = passage or Passage(call, (stage,), 1, (stage,))
        return effects

    def _handle(self, call: Call[Any], now: float) -> Effects:
        if call.request.__class__ is UnsupportedVersion:
            return [Reply(call.ticket, unsupported(self.broker))]
        try:
            return self.handlers[call.ticket.api_key].handle(self.broker, call, now)
        except ResponseTooLargeError as error:  # only in handlers that change nothing
            return [Close(call.ticket, str(error))]

    def run(self, outcomes: Iterable[Outcome], now: float) -> list[Outcome]:
        """Complete all unfinished work among the outcomes at the time ``now``.

        Return the outcomes, without unfinished work.

        ``now``: the broker's time in seconds.
        """
        finished: list[Outcome] = []
        remaining = deque(outcomes)
        while remaining:
            outcome = remaining.popleft()
            if isinstance(outcome, Unfinished):
                remaining.extendleft(reversed(outcome.resume(now)))
            else:
                finished.append(outcome)
        return finished

    def _resume(self, work: Work, now: float) -> list[Outcome]:
        """Handle the next slice (part of limited size) of a request. Return the outcomes, such as the encoded response.

        The response is encoded in slices too.

        Args:
            work: The remaining work.
            now: The broker's time in seconds.
        """
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
                outcomes[number] = self._encoding(outcome)
        return outcomes

    def _encoding(self, reply: Reply) -> Unfinished:
        """Return the encoding of a response (``reply``) as unfinished work."""
        return Unfinished(reply.ticket, partial(self._encode, reply.ticket, encoded(reply, self.broker.slice_size)))

    def _encode(self, ticket: Ticket, encoding: Generator[None, None, Reply], now: float) -> list[Outcome]:  # noqa: ARG002
        """Encode the next slice of a response. Return the outcomes: the response, or the remaining work.

        Args:
            ticket: Identity of the request.
            encoding: Generator that encodes a slice (part of limited size) at a time.
            now: The broker's time in seconds.
        """
        try:
            next(encoding)
        except StopIteration as end:
            return [end.value]
        return [Unfinished(ticket, partial(self._encode, ticket, encoding))]

    def deadline(self) -> float:
        """Return the earliest time at which a deadline can be due.

        The time is in seconds of the broker's clock; inf without deadlines.
        """
        return min(self.broker.deadlines.earliest, self.broker.client_deadlines.earliest)

    def tick(self, now: float, client_time: float | None = None) -> list[Outcome]:
        """Handle the next due deadline. Return the outcomes, such as encoded responses.

        The caller must repeat the call until ``deadline()`` is in the future.

        Args:
            now: The broker's time in seconds.
            client_time: Real time in seconds, for deadlines that clients measure too, such as the maximum wait of a
                Fetch; None if it equals ``now``.
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
            case CatchUpDue() as due:
                return self.finish(reassignments.caught_up(self.broker, due, now), now)
            case MoveDue(topic_id, index, node):
                self.broker.log_dirs.complete_move(Replica(node, topic_id, index))
                return self.finish([], now)
            case StageDue(ticket):
                return self.finish(self._stage_due(ticket, now), now)
            case ScriptDue(_, run) | ConnectionDue(_, run):
                if run is not None:
                    run(now)  # it delivers its own effects
                return self.finish([], now)
            case ShareLockDue() | ShareFetchDue() | ShareDisconnectDue() as due:
                from mockbroker.broker.share_fetch.delayed_share_fetch import handle_due  # late: rarely used

                return self.finish(handle_due(self.broker, due, now), now)
            case RetentionDue() as due:
                moved = self.broker.logs.retention_due(due, now)
                return self.finish(complete_delayed_fetches(self.broker, moved), now)
            case CompactionDue() as due:
                self.broker.logs.compaction_due(due, now)
                return self.finish([], now)
            case ProducersDue() as due:
                self.broker.logs.producers_due(due, now)
                return self.finish([], now)
            case TransactionalIdsDue():
                self.broker.transactions.remove_expired(now)
                return self.finish([], now)
            case SweepDue():
                return self.finish(self.broker.groups.delete_expired_offsets(now), now)
            case TokenSweepDue():
                self.broker.delete_expired_tokens(now)
                return self.finish([], now)
            case None:
                return []

    def _stage_due(self, ticket: Ticket, now: float) -> Effects:
        return [effect for stage in self.noticing_stages for effect in stage.due(ticket, now)]

    def forget(self, ticket: Ticket) -> None:
        """Discard a request, because its connection was closed.

        As in Kafka, a pending JoinGroup or SyncGroup remains in its group.

        ``ticket``: ticket of the request.
        """
        if (passage := self._passages.get(ticket)) is not None and not passage.forget():
            del self._passages[ticket]
        self.broker.fetch_purgatory.remove(ticket)
        self.broker.client_deadlines.forget(FetchDue(ticket))
        self.broker.client_deadlines.forget(DismissDue(ticket))
        if self.broker.share_fetch_purgatory.remove(ticket) is not None:
            self.broker.client_deadlines.forget(ShareFetchDue(ticket))

    def forget_connection(self, number: int) -> bool:
        """Notify the stages that a connection was closed, and end the share session of the connection.

        Return whether the end of the session added a deadline, which is due at once.

        ``number``: number of the connection.
        """
        ends_session = any(sessions.is_of(number) for _, sessions in self.broker.all_share_sessions())
        if ends_session:
            self.broker.client_deadlines.set(ShareDisconnectDue(number), 0.0)
        for stage in self.noticing_stages:
            stage.forget_connection(number)
        return ends_session

    def finish(self, effects: Effects, now: float) -> list[Outcome]:
        """Convert effects, such as response messages, to outcomes, such as encoded responses.

        Before that, the method does the work that changes of the state require, such as writing changed groups to their
        logs and completing delayed fetches. Events are added to the journal. Responses are adapted to their API
        versions.

        Args:
            effects: The effects of a request or deadline.
            now: The broker's time in seconds.
        """
        broker = self.broker
        if broker.cluster.reconfigured:
            effects = [*effects, *failover.elect_leaderless(broker, broker.cluster.reconfigured, now)]
            broker.logs.follow_changes(now)
        if (broker.groups.dirty or broker.appended_partitions or broker.deleted_topics) and (
            appended := broker.write_changes(now)
        ):
            effects = [*effects, *complete_delayed_fetches(broker, appended)]
        if changed := broker.changed_partitions:
            from mockbroker.broker.share_fetch.delayed_share_fetch import (
                complete_delayed_share_fetches,  # late, as above
            )

            broker.changed_partitions = []
            effects = [*effects, *complete_delayed_share_fetches(broker, changed, now)]
        if self._passages:
            effects = self._process_answers(effects, now)
        if notes := broker.transactions.begun:
            effects = [*notes, *effects]
            notes.clear()
        outcomes: list[Outcome] = []
        for effect in effects:
            if isinstance(effect, Reply):
                ticket = effect.ticket
                adapt = self.handlers[ticket.api_key].adapt_response
                if adapt is not None:
                    adapted = adapt(effect.response, ticket.version)
                    if adapted is not effect.response or effect.encoded is not None:
                        effect = Reply(ticket, adapted, None, effect.delivery)
                delivery = effect.delivery
                altered = delivery is not None and delivery.alter is not None
                outcomes.append(self._encoding(effect) if altered else effect)
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
        """Continue a request that a stage has held. Return the outcomes, such as the encoded response.

        Args:
            proceed: The effect ``Proceed`` of the stage, which contains the request.
            now: The broker's time in seconds.
        """
        passage = self._passages.pop(proceed.ticket, None)
        if passage is None:  # its connection was closed
            return []
        if proceed.call is not None:
            passage.watch(proceed.call)
        return self.finish(self._pass_on(passage, now), now)

    def _process_answers(self, effects: Effects, now: float) -> Effects:
        """Pass each response among the effects to the stages that process it. Return the effects after this processing.

        Args:
            effects: The effects of requests and deadlines.
            now: The broker's time in seconds.
        """
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
