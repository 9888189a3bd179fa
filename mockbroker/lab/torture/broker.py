"""The cluster of a torture case: it misbehaves, then behaves correctly, and records the progress of the client."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from itertools import islice, product
from pathlib import Path
from typing import Any

from kwire import APIS
from kwire.command import one_line
from kwire.explain import explain_response
from mockbroker.api.cluster import Cluster
from mockbroker.api.thread import BrokerThread
from mockbroker.base.effects import Ticket
from mockbroker.base.errors import ConflictError, NotFoundError
from mockbroker.broker.request_log import Request, api_key
from mockbroker.lab.torture.case import Case
from mockbroker.lab.torture.handshakes import HostileHandshakes
from mockbroker.lab.torture.security import SASL_STEPS, Security
from mockbroker.lab.torture.stage import HostileStage, WatchingStage

BROKERS, PARTITIONS = 2, 3
MOVES = (1, 0, 1)  # so that the leader epoch is 3, and lower epochs are outdated
CONFIG = {
    "auto.create.topics.enable": "true",
    "default.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}
RECORD = b"a record of the torture test"
FED = 0.3  # seconds between records
MOST_UNANSWERED = 1_000  # pending requests that are checked again for a response
TREE_LINES = 60  # fields of a response that are shown
SHOWN_VALUE = 100  # characters of a value


def _works(request: Request) -> bool:
    """Return whether the response to a request proves progress of the client."""
    response = request.response
    match request.api:
        case _ if response is None:
            return False
        case "Produce":
            parts = [part for topic in response.responses for part in topic.partition_responses]
            return bool(parts) and not any(part.error_code for part in parts)
        case "Fetch":
            return any(part.records for topic in response.responses for part in topic.partitions)
        case "OffsetCommit" | "TxnOffsetCommit":
            parts = [part for topic in response.topics for part in topic.partitions]
            return bool(parts) and not any(part.error_code for part in parts)
        case "ShareAcknowledge":
            return not response.error_code
        case "EndTxn":
            return not response.error_code
        case _:
            return False


GOALS = ("Produce", "Fetch", "OffsetCommit", "TxnOffsetCommit", "ShareAcknowledge", "EndTxn")


class HostileBroker:
    """A cluster of two brokers that misbehaves as a case describes.

    Args:
        thread: thread of the cluster.
        topic: topic to which records are appended continuously.
        case: the misbehaviour; None for a correct cluster.
        seed: seed of the random numbers of the case.
    """

    def __init__(self, thread: BrokerThread, topic: str, case: Case | None, seed: int) -> None:
        self._thread = thread
        self._handle = thread.handle()
        self._topic = topic
        self._stage: HostileStage | HostileHandshakes | None = None
        self._watch = WatchingStage()
        self._fed = -math.inf  # time of the last record
        self._first = 0  # entry of the request log that is read next
        self._unanswered: list[Ticket] = []
        self._applied = 0  # by rules that were removed
        for partition, node in product(range(PARTITIONS), MOVES):
            self._handle.move_leader(topic, partition, node)
        if case is None:
            return
        for rule in case.rules:
            options: dict[str, Any] = {"seed": seed, **rule}
            self._handle.faults.add(**options)
        thread.call(self._watch_rules)
        if case.flight is not None or case.certificate is not None:
            self._stage = thread.call(lambda cluster: HostileHandshakes(case, seed, cluster._tls))
        elif case.change is not None or case.frames is not None:
            nodes = [(node.node_id, node.host, node.port) for node in self._handle.nodes]
            self._stage = stage = HostileStage(case, seed, nodes)

            def add(cluster: Cluster) -> None:
                router = cluster.router
                router.stages = (*router.stages, stage)
                # The stage of a connection answers the requests of SASL itself, before the stages of all connections.
                outer = {key: (*router.outer_stages.get(key, ()), stage) for key in map(api_key, SASL_STEPS)}
                router.outer_stages = {**router.outer_stages, **outer}
                router.noticing_stages = (*router.noticing_stages, stage)

            thread.call(add)

    def _watch_rules(self, cluster: Cluster) -> None:
        """Add a stage that stores the last response that a fault rule has changed, for ``explanation``."""
        outer = cluster.router.outer_stages
        cluster.router.outer_stages = {key: (self._watch, *stages) for key, stages in outer.items()}

    @property
    def bootstrap_servers(self) -> str:
        return self._handle.bootstrap_servers

    @property
    def ca(self) -> Path | None:
        """The file with the certificate of the authority that TLS clients must trust."""
        return self._handle.tls.ca

    @property
    def applied(self) -> int:
        """The number of times that the cluster has misbehaved."""
        if self._stage is not None:
            return self._stage.changed
        return self._applied + sum(state.applied for state in self._handle.faults.states())

    def keep_fed(self, now: float) -> None:
        """Append one record to each partition, unless this was done less than FED seconds ago.

        ``now``: seconds since any time, always the same one.
        """
        if now - self._fed >= FED:
            self._fed = now
            self.feed()

    def feed(self) -> None:
        """Append one record to each partition of the topic that the client uses."""
        for partition in range(PARTITIONS):
            self._handle.produce(self._topic, [RECORD], partition=partition)

    def behave(self) -> None:
        """Stop the misbehaviour, and rebalance all groups, because their assignments may be invalid.

        All connections stay open, also if the broker has sent only a part of a response on a connection. The client
        must detect this, for example by a request timeout.
        """
        applied = self.applied
        if self._stage is not None:
            self._stage.on = False
        self._handle.faults.remove()
        self._applied = applied
        for group_id in self._handle.groups():
            with contextlib.suppress(ConflictError, NotFoundError):  # no members, or no coordinator now
                self._handle.rebalance(group_id)

    def seen(self) -> tuple[set[str], set[str]]:
        """Return the progress of the client since the last call of this method.

        Returns: the names of the APIs that the client has requested; the APIs in GOALS whose response shows that the
        client made progress.
        """

        def look(cluster: Cluster) -> tuple[set[str], set[str]]:
            log = cluster.router.requests
            new = log.entries(self._first)
            self._first = log.removed + len(log)
            entries = [*self._unanswered, *new]
            self._unanswered = [entry for entry in entries if entry.answered_at is None][-MOST_UNANSWERED:]
            done: set[str] = set()
            for entry in entries:
                name = APIS[entry.api_key].name
                if name in GOALS and name not in done and entry.answered_at is not None and _works(log.decode(entry)):
                    done.add(name)
            return {APIS[entry.api_key].name for entry in new}, done

        return self._thread.call(look)

    def skip_seen(self) -> None:
        """Discard the requests that the client has sent until now, so that the next ``seen`` covers only later
        requests.
        """

        def skip(cluster: Cluster) -> None:
            log = cluster.router.requests
            self._first = log.removed + len(log)
            self._unanswered = []

        self._thread.call(skip)

    def explanation(self) -> str:
        """Return the fields of the last response that the case changed, one field per line, at most TREE_LINES fields.

        Return "" if the case has changed no response.
        """
        last = self._stage.last if isinstance(self._stage, HostileStage) else self._watch.last
        if last is None:
            return ""
        explanation = explain_response(*last)
        lines = [explanation.name]
        for leaf in islice(explanation.leaves(), TREE_LINES):
            value = one_line(repr(leaf.value))[:SHOWN_VALUE]
            lines.append(f"{leaf.offset:>6}  {leaf.path} = {value}")
        return "\n".join(lines)


@contextlib.contextmanager
def hostile(
    case: Case | None, seed: int, topic: str, config: Mapping[str, Any], security: Security
) -> Iterator[HostileBroker]:
    """Run a cluster for a case during a ``with`` block, and yield the cluster.

    Args:
        case: the case; None for a correct cluster.
        seed: seed of the random numbers.
        topic: topic that the client uses. The function creates it.
        config: further broker settings.
        security: security settings of the listener.
    """
    settings = {**CONFIG, **config}
    options = security.cluster_options()
    thread = BrokerThread(brokers=BROKERS, topics={topic: PARTITIONS}, config=settings, **options)
    try:
        yield HostileBroker(thread, topic, case, seed)
    finally:
        thread.close()
