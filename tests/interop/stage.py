"""The stage of a test: a cluster, real clients, and a condition on which the test waits.

Every event - an entry of the cluster's journal, a line that a client prints, the end of a process - wakes that
condition, so that no test sleeps. A wait that takes too long fails with a report of all events.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import pytest
from interop import programs
from interop.hosted import HostedClient
from need import lacking, need

from mockbroker import Cluster, Event

SESSION_MS = 2000
STATIC_SESSION_MS = 10_000  # a static member must have returned within this time
HEARTBEAT_MS = 300
CONSUMER_HEARTBEAT_MS = 100  # of the consumer protocol, whose interval is a setting of the broker
CONFIG = {"group.initial.rebalance.delay.ms": 50, "group.min.session.timeout.ms": 100}
LIMIT = 30.0  # seconds that a wait for one condition may take
RECHECK = 0.05  # seconds between checks of states that no event reports, such as the share state that a leader has read
MEMBERS = Path(__file__).parent / "members"
MODULES = {"kafka-python": "kafka", "confluent-kafka": "confluent_kafka", "aiokafka": "aiokafka"}
FAMILIES = (*MODULES, "kcat", *programs.PROGRAMS)
OURS = "ours"  # the consumer of this package, which has no column in docs/clients.md
ASSIGNORS = {  # the first assignor of each family is the default
    "kafka-python": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "confluent-kafka": ("range", "roundrobin", "cooperative-sticky"),
    "aiokafka": ("range", "roundrobin", "sticky"),
    "kcat": ("range", "roundrobin", "cooperative-sticky"),
    "java": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "franz-go": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "kafkajs": ("RoundRobinAssigner", "roundrobin"),
    OURS: ("range", "roundrobin", "sticky", "cooperative-sticky"),
}
CONSUMER = ("confluent-kafka", "java", "franz-go")  # families that also speak the consumer protocol (KIP-848)
SERVER_ASSIGNORS = ("uniform", "range")

MARKS = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning"),  # kafka-python, on import
]

EVENTS = count(1)  # numbers assignments and records of all members in the order of their arrival

Process = subprocess.Popen[str] | HostedClient
T = TypeVar("T")
Owned = tuple[str, int]  # topic and partition


def need_client(family: str) -> None:
    """Skip the test, or in CI fail it, if this client is missing."""
    if family == "kcat":
        need("kcat", "Debian has it as a package")
    elif family in programs.PROGRAMS:
        programs.command(family)
    elif family != OURS and find_spec(MODULES[family]) is None:
        lacking(f"{family} is not installed: pip install kwire[demo]")


def start_client(family: str, role: str, options: Mapping[str, Any], *, own_process: bool = False) -> Process:
    """Start a client: in a separate process, or in the JVM that all Java clients of this pytest process share.

    ``role``: member or transform; ``own_process``: a separate process also for Java, so that the test can kill it.
    """
    if family == programs.HOSTED and not own_process:
        return programs.java_host().start(role, options)
    if family in programs.PROGRAMS:
        command = [*programs.command(family), role]
    else:
        prefix = "" if role == "member" else f"{role}_"
        command = [sys.executable, str(MEMBERS / f"{prefix}with_{family.replace('-', '_')}.py")]
    return start_process([*command, json.dumps(options)])


def start_process(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a client by its command."""
    return subprocess.Popen(
        command,
        env=programs.ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


class Member:
    """A client in a group.

    ``records``: topic, partition, offset and value of each printed record; ``assigned_at``: number in EVENTS of the
    last assignment of each partition; ``times``: number in EVENTS of each record, and of the last assignment of its
    partition before it (0: none).
    """

    def __init__(self, stage: Stage, name: str, process: Process) -> None:
        self.name = name
        self.records: list[tuple[str, int, int, str]] = []
        self.times: list[tuple[int, int]] = []
        self.assigned_at: dict[Owned, int] = {}
        self.assigned: list[list[Owned]] = []  # each assignment that its callback reported
        self.held: set[Owned] = set()  # its partitions, as all its callbacks reported them
        self.plans: list[dict[str, list[Owned]]] = []  # its assignments as leader, by member id; ours only
        self.committed = 0
        self.fenced = False  # by another client with the same instance id
        self.refused = False  # because another client has its instance id
        self.log: list[str] = []
        self._stage = stage
        self._process = process
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout, self.heard), daemon=True),
            threading.Thread(target=self._read, args=(self._process.stderr, self.complained), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def values(self) -> list[str]:
        return [value for *_, value in self.records]

    def heard(self, line: str) -> None:
        """Process a line that the client has written to stdout."""
        message = json.loads(line)
        match message.pop("event"):
            case "record":
                self.add_record(message["topic"], message["partition"], message["offset"], message["value"])
            case "assigned":
                self.assigned.append(_pairs(message))
                self.assigned_at |= dict.fromkeys(_pairs(message), next(EVENTS))
                self.held |= set(_pairs(message))
            case "revoked":
                self.held -= set(_pairs(message))
            case "planned":
                self.plans.append({who: [(topic, n) for topic, n in share] for who, share in message["shares"].items()})
            case "committed":
                self.committed += 1
            case "fenced":
                self.fenced = True
            case "refused":
                self.refused = True

    def add_record(self, topic: str, partition: int, offset: int, value: str) -> None:
        self.records.append((topic, partition, offset, value))
        self.times.append((next(EVENTS), self.assigned_at.get((topic, partition), 0)))

    def complained(self, line: str) -> None:
        """Process a line that the client has written to stderr."""
        self.log.append(line)
        self.fenced |= "fenced" in line.lower()
        self.refused |= "instance ID is still used" in line  # librdkafka's message for UNRELEASED_INSTANCE_ID

    def commit(self) -> None:
        """Commit the positions after all printed records; return when the client reports that it has committed."""
        self.start_commit()()

    def start_commit(self) -> Callable[[], object]:
        """Start a commit, and return a function that waits for its end."""
        before = self.committed
        self.say("commit")
        return lambda: self._stage.wait(f"{self.name} to commit", lambda: self.committed > before)

    def unsubscribe(self) -> None:
        """Unsubscribe from all topics; the client runs on and waits for the command leave. For Python clients only."""
        self.say("unsubscribe")

    def leave(self) -> None:
        """Close the client and wait for its end."""
        self.say("leave")
        assert self.ended() == 0, self._stage.report(f"{self.name} did not end well")

    def kill(self) -> None:
        """Kill the client with SIGKILL: it does not leave the group. A Java client needs ``own_process=True``."""
        self._process.kill()
        self.ended()

    def ended(self) -> int:
        """Wait for the end of the client, and return its exit code."""
        code = self._process.wait(LIMIT)
        for reader in self._readers:
            reader.join(LIMIT)
        return code

    def clean_up(self) -> None:
        if isinstance(self._process, HostedClient):
            self._process.stop(LIMIT)
        else:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):  # the client ended before it read a command
                pipe.close()

    def say(self, command: str) -> None:
        """Send a command to the client."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            self.ended()
            raise AssertionError(self._stage.report(f"{self.name} ended before the command {command!r}")) from error

    def _read(self, pipe: Any, take: Callable[[str], None]) -> None:
        for line in pipe:
            with self._stage.changed:
                take(line.rstrip("\n"))
                self._stage.changed.notify_all()


class WholeShareMember(Member):
    """A client that reports all its partitions with each assignment, and nothing when partitions are revoked."""

    def heard(self, line: str) -> None:
        super().heard(line)
        if json.loads(line)["event"] == "assigned":
            self.held = set(self.assigned[-1])


class KcatMember(Member):
    """kcat prints records as ``topic partition offset value``, logs rebalances to stderr, and leaves on SIGTERM.

    It commits the positions after the printed records when it leaves.
    """

    FORMAT = "%t %p %o %s\n"

    def heard(self, line: str) -> None:
        topic, partition, offset, value = line.split(" ", 3)
        self.add_record(topic, int(partition), int(offset), value)

    def complained(self, line: str) -> None:
        super().complained(line)
        if " assigned: " in line:
            partitions = re.findall(r"([^ ,]+) \[(\d+)\]", line.split(" assigned: ")[1])
            self.assigned.append([(topic, int(partition)) for topic, partition in partitions])

    def commit(self) -> None:
        self.leave()

    def leave(self) -> None:
        assert isinstance(self._process, subprocess.Popen)
        if self._process.poll() is None:
            self._process.terminate()
        assert self.ended() == 0, self._stage.report(f"{self.name} did not end well")


class Stage:
    """A cluster and its clients. ``group``, ``topic``, ``session_ms``, ``heartbeat_ms``: of members started later."""

    group = "players"
    topic = "orders"
    session_ms = SESSION_MS  # of members that are not static
    heartbeat_ms = HEARTBEAT_MS  # of the classic protocol

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.members: list[Member] = []
        self.changed = threading.Condition()
        cluster.journal.listeners.append(lambda _: self._something_happened())

    def _something_happened(self) -> None:
        with self.changed:
            self.changed.notify_all()

    # --- members ---

    def member(
        self,
        family: str,
        name: str = "",
        *,
        assignor: str = "",
        reset: str = "earliest",
        bootstrap: str = "",
        instance: str = "",
        protocol: str = "classic",
        regex: str = "",
        own_process: bool = False,
    ) -> Member:
        """Start a client of this family that joins the group, and return immediately.

        ``name``: its client id; ``instance``: its group.instance.id, if it is static; ``assignor``: for Python clients
        also several in order of preference, separated by commas; ``protocol``: classic or consumer; ``regex``:
        subscribe to topics that match, not to ``topic``; ``own_process``: a separate process also for Java, so that the
        test can kill it.
        """
        need_client(family)
        name = name or f"{family}-{len(self.members)}"
        assignor = assignor or (SERVER_ASSIGNORS if protocol == "consumer" else ASSIGNORS[family])[0]
        bootstrap = bootstrap or self.cluster.bootstrap_servers
        session_ms = STATIC_SESSION_MS if instance else self.session_ms
        if family == "kcat":
            settings = {
                "client.id": name,
                "session.timeout.ms": session_ms,
                "heartbeat.interval.ms": self.heartbeat_ms,
                "partition.assignment.strategy": assignor,
                "auto.offset.reset": reset,
                "topic.metadata.refresh.interval.ms": 1000,
                **({"group.instance.id": instance} if instance else {}),
            }
            options = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
            command = ["kcat", "-b", bootstrap, "-G", self.group, *options, "-u", "-f", KcatMember.FORMAT, self.topic]
            member: Member = KcatMember(self, name, start_process(command))
        else:
            requested = {
                "bootstrap": bootstrap,
                "client_id": name,
                "group": self.group,
                "topic": self.topic,
                "session_ms": session_ms,
                "heartbeat_ms": self.heartbeat_ms,
                "assignor": assignor,
                "reset": reset,
                "instance": instance,
                "protocol": protocol,
                "regex": regex,
            }
            kind = WholeShareMember if family == "kafkajs" else Member
            member = kind(self, name, start_client(family, "member", requested, own_process=own_process))
        self.members.append(member)
        return member

    def joined(self, family: str, name: str = "", **how: Any) -> Member:
        """Start a client as ``member`` does, and return when the group is stable and has this member."""
        there = {member.name for member in self.members if member._process.poll() is None}
        member = self.member(family, name, **how)
        self.wait_stable({*there, member.name})
        return member

    def produce(self, values: Sequence[str]) -> None:
        """Append values to all partitions in turn, without a client."""
        partitions = self.all_partitions()
        for number, (topic, partition) in enumerate(partitions):
            if mine := values[number :: len(partitions)]:
                self.cluster.produce(topic, mine, partition=partition)

    def commit_start(self) -> None:
        """Commit offset 0 of all partitions, so that no client looks up a start offset.

        librdkafka 2.14 continues to fetch a partition that is revoked during this lookup, and reads it again.
        """
        self.cluster.set_committed(self.group, dict.fromkeys(self.all_partitions(), 0))

    # --- the journal ---

    def events(self, kind: str = "") -> list[Event]:
        """Return the events of the group, of one kind or of all kinds."""
        return [event for event in self.happened() if event.group == self.group and kind in ("", event.event)]

    def happened(self) -> list[Event]:
        """Return the whole journal, without a call of the broker's thread, which may be waiting to report an event."""
        return list(self.cluster.journal.events)

    def shares(self, generation: int) -> dict[str, list[Owned]]:
        """Return the assigned partitions in a generation, by client id."""
        return {event.client: _flat(event) for event in self.events("assign") if event.generation == generation}

    def generation(self) -> int:
        """Return the newest generation with an assignment; -1 if there is none."""
        return max((event.generation for event in self.events("assign")), default=-1)

    def stable_with(self, clients: set[str]) -> bool:
        """Return True if the newest generation has exactly these clients, and each partition has one owner."""
        shares = self.shares(self.generation())
        newest = max((event.generation for event in self.events("generation")), default=-1)
        owned = [partition for share in shares.values() for partition in share]
        return newest == self.generation() and set(shares) == clients and sorted(owned) == self.all_partitions()

    def member_id(self, client: str) -> str:
        """Return the newest member id of this client."""
        return [event.member_id for event in self.events() if event.client == client and event.member_id][-1]

    def client_of(self, member_id: str) -> str:
        """Return the client with this member id; "" if there is none."""
        return next((event.client for event in self.events() if event.member_id == member_id and event.client), "")

    def all_partitions(self) -> list[Owned]:
        topics = sorted([self.topic, *self.other_topics])
        return [(topic, index) for topic in topics for index in range(self.partitions)]

    partitions = 6
    other_topics: Sequence[str] = ()  # further topics of the group, with the same number of partitions

    def check_generations(self) -> int:
        """Check that no partition had two owners in a generation, and that with an eager protocol each had one.

        Returns the number of generations. A generation may also have no assigned partitions: kafka-python may lead
        before it knows the topic, also on Apache Kafka. It then assigns no partitions, and rejoins as soon as it knows
        the topic.
        """
        seen = sorted({event.generation for event in self.events("assign")})
        protocols = {event.generation: event.protocol for event in self.events("generation")}
        for generation in seen:
            owned = Counter(partition for share in self.shares(generation).values() for partition in share)
            assert max(owned.values(), default=1) == 1, self.report(
                f"generation {generation}: two owners of one partition"
            )
            if owned and protocols[generation] != "cooperative-sticky":
                assert sorted(owned) == self.all_partitions(), self.report(f"generation {generation}: not all owned")
        return len(seen)

    def check_owners(self) -> None:
        """Check that no partition ever had two owners, by the coordinator's assignments and by the members' reports.

        This holds for groups of the consumer protocol, also while some members still use the classic protocol.
        """
        shares: dict[str, tuple[str, set[Owned]]] = {}  # by member id: client, share
        for event in self.events():
            if event.event in ("leave", "expire"):
                shares.pop(event.member_id, None)
            elif event.event == "generation" and event.leader:  # in a classic group, every member gets a new assignment
                shares.clear()
            elif event.event == "assign":
                if self._came_back(event):
                    shares = {who: share for who, share in shares.items() if share[0] != event.client}
                shares[event.member_id] = event.client, set(_flat(event))
                self._check_disjoint([share for _, share in shares.values()], event.to_json())
        owners: dict[str, set[tuple[object, int]]] = {}
        expired = {event.client: event.time_ms for event in self.events("expire")}
        for request in self.cluster.requests("ConsumerGroupHeartbeat"):
            body = request.body
            for client in [client for client in owners if expired.get(client, inf) <= request.time_ms]:
                del owners[client]
            if body.member_epoch < 0:
                owners.pop(request.client_id, None)
            elif body.topic_partitions is not None:
                owners[request.client_id] = {
                    (t.topic_id, index) for t in body.topic_partitions for index in t.partitions
                }
                self._check_disjoint(owners.values(), body)

    def _came_back(self, event: Event) -> bool:
        return any(other.event == "rejoin" and other.member_id == event.member_id for other in self.events())

    def _check_disjoint(self, shares: Collection[set[T]], when: object) -> None:
        together = [partition for share in shares for partition in share]
        assert len(together) == len(set(together)), self.report(f"two owners of one partition at {when}")

    # --- waiting ---

    def wait(self, what: str, holds: Callable[[], T], seconds: float = LIMIT) -> T:
        """Wait until a condition holds, and return its result.

        The condition must not call the cluster: it runs with a lock that the journal of the cluster needs.
        """
        deadline = time.monotonic() + seconds
        with self.changed:
            while not (result := holds()) and time.monotonic() < deadline:
                self.changed.wait(RECHECK)
        if result:
            return result
        raise AssertionError(self.report(f"timed out after {seconds:g} s: {what}"))

    def wait_a_moment(self, holds: Callable[[], object]) -> None:
        """Wait a short time until a condition holds."""
        with self.changed:
            self.changed.wait_for(holds, HEARTBEAT_MS / 1000)

    def wait_stable(self, clients: set[str]) -> None:
        """Wait until the group has exactly these clients, and each partition has an owner."""
        self.wait(f"a stable group of {sorted(clients)}", lambda: self.stable_with(clients))

    def wait_held(self, *members: Member) -> None:
        """Wait until the callbacks of each of these members have reported its last assignment in the journal."""
        for member in members:
            self.wait(
                f"{member.name} to hear of its share",
                lambda member=member: sorted(member.held) == self.shares(self.generation()).get(member.name),
            )

    def wait_values(self, values: Sequence[str], *members: Member) -> None:
        """Wait until these members together have printed each of these values, and check that each was printed once."""
        wanted = sorted(values)

        def printed() -> list[str]:
            return sorted(value for member in members for value in member.values)

        self.wait(f"{len(wanted)} records", lambda: len(printed()) >= len(wanted))
        assert printed() == wanted, self.report("not the records that were produced")

    def report(self, problem: str) -> str:
        """Return a report with the problem, the journal and the output of the clients."""
        lines = [problem, "journal:"]
        lines += [f"  {json.dumps(event.to_json())}" for event in self.happened()]
        for member in self.members:
            lines.append(f"{member.name}: exit code {member._process.poll()}, {len(member.records)} records")
            lines += [f"  {line}" for line in member.log[-30:]]
        return "\n".join(lines)


@contextmanager
def stage_of(cluster: Cluster) -> Iterator[Stage]:
    """Yield a Stage, and end its members afterwards."""
    stage = Stage(cluster)
    with all_ended(stage.members):
        yield stage


@contextmanager
def all_ended(members: Sequence[Member]) -> Iterator[None]:
    """End all members after the block, also if one of them cannot be ended."""
    try:
        yield
    finally:
        with ExitStack() as stack:
            for member in members:
                stack.callback(member.clean_up)


def _pairs(message: Mapping[str, Any]) -> list[Owned]:
    return [(topic, partition) for topic, partition in message["partitions"]]


def _flat(event: Event) -> list[Owned]:
    return sorted((topic, partition) for topic, indexes in (event.assignment or {}).items() for partition in indexes)
