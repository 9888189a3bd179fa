"""Scripts: the complete input of a run, as data (clients, broker settings, faults).

All runs of a script are identical. Shrinking removes faults and members from a script.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from kwire.lazy_dataclass import dataclass
from mockbroker.broker.broker import SLICE_SIZE

# Kinds of faults and operations. ``target`` is a member number or a broker id, ``value`` a duration or a choice.
MEMBER_FAULTS = (
    "lose-request",  # the next request is lost, with its connection
    "lose-answer",  # the next request is handled, but its response is lost, with the connection
    "cut",  # both connections of a member break, with all messages in flight
    "clog",  # messages in both directions are held for ``value`` seconds
    "slow",  # each message takes ``value`` seconds more until the end of the faults
    "pause",  # the process pauses for ``value`` seconds
    "stop-polling",  # the member sends heartbeats, but does not poll for ``value`` seconds
    "crash",  # the process crashes, and restarts after ``value`` seconds
    "leave",  # the member leaves, and starts again after 1 + ``value`` seconds
    "subscribe",  # the member changes its subscription; ``value`` selects the topics
    "retire",  # an administrator removes the member
    "switch",  # the process stops, and starts with the other protocol (classic or consumer) after ``value`` seconds
)
BROKER_FAULTS = (
    "stall",  # the broker's event loop blocks for ``value`` seconds, while requests arrive
    "jump",  # the broker's clock jumps ahead by ``value`` seconds
    "swizzle",  # many links are clogged one by one, and unclogged one by one
)
DISK_FAULTS = (
    "power",  # the process crashes and loses some unsynced bytes; it restarts after ``value`` seconds
    "fsync",  # the next sync fails: the process ends without acknowledging anything that waited for it
)
FAILOVER_FAULTS = (
    "kill-broker",  # a broker crashes, which the others notice later; it restarts after ``value`` seconds
    "stop-broker",  # a broker hands over its partitions and stops; it restarts after ``value`` seconds
    "move",  # the groups of a partition of __consumer_offsets move to another coordinator
    "stale",  # a broker serves stale metadata for ``value`` seconds
)
LEADER_FAULTS = ("lead",)  # a partition of a topic of the clients moves to another leader
VANISH = "vanish"  # the machine of a client disappears without closing connections; it restarts after ``value`` seconds
ADMIN_FAULTS = (
    "grow",  # a topic gets more partitions
    "delete-group",  # a DeleteGroups request, which may be refused
    "delete-offsets",  # an OffsetDelete request, which may be refused
    "look",  # groups are listed and described
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a script, such as a crash of a client or a slow network.

    Attributes:
        at: number of events after which the fault occurs.
        kind: kind of fault: an element of MEMBER_FAULTS or another tuple of this module, or VANISH.
        target: member number or broker id.
        value: duration in seconds, or a random number that selects an object; 0 if this kind needs neither.
    """

    at: int
    kind: str
    target: int = 0
    value: float = 0.0

    def __str__(self) -> str:
        return f"{self.at:6d}  {self.kind} {self.target}" + (f" {self.value:.3f}" if self.value else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberScript:
    """The script of one client. All times are in seconds.

    Attributes:
        number: client number.
        kind: a key of ``world.KINDS``, or admin.
        group: group id.
        topics: subscribed topics.
        instance: instance id of a static member; None for a dynamic member.
        starts: virtual time of the start.
        session: session timeout.
        rebalance: rebalance timeout.
        heartbeat: heartbeat interval.
        commit: commit interval.
        delay: mean network delay.
        version: version of JoinGroup that the client sends.
        regex: regular expression that a member of the consumer protocol subscribes to; "" to subscribe to ``topics``.
        other: kind of the client after an odd number of ``switch`` faults; "" if it never changes.
        kip890: whether the client uses the transaction protocol of clients since Kafka 4.0 (KIP-890).
    """

    number: int
    kind: str
    group: str
    topics: tuple[str, ...]
    instance: str | None = None
    starts: float = 0.0
    session: float = 10.0
    rebalance: float = 20.0
    heartbeat: float = 3.0
    commit: float = 5.0
    delay: float = 0.005
    version: int = 9
    kip890: bool = False
    regex: str = ""
    other: str = ""

    def __str__(self) -> str:
        values = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self)[2:])
        return f"m{self.number} {self.kind} " + " ".join(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The complete input of a run.

    Attributes:
        seed: seed of all random choices in the run.
        scheme: name of the scheme (a function of ``schemes``) that generated the script.
        events: number of events in the phase with faults.
        brokers: number of brokers.
        release: emulated Kafka release.
        settings: broker settings by Kafka's names.
        topics: topic name -> number of partitions.
        sync: maximum duration of a disk sync, seconds; negative for a broker without a disk.
        members: scripts of the clients.
        faults: faults, sorted by ``at``.
        slice_size: number of elements of a request that are handled before other requests get a turn.
        rules: fault rules of the broker in JSON form, which apply until the faults end.
        replicas: maximum number of replicas of each partition.
        buggify: active buggify points.
        protocol: Kafka's security protocol of connections that transport bytes; "" for connections that transport
            messages.
        greets: whether clients send ApiVersions first on each connection that transports bytes.
        configs: topic -> configurations, for each topic with a cleanup policy. Only the clients of the scheme
            ``upkeep`` write to these topics.
    """

    seed: int
    scheme: str
    events: int
    brokers: int
    release: str
    settings: Mapping[str, object]
    topics: Mapping[str, int]
    sync: float
    members: tuple[MemberScript, ...]
    faults: tuple[Fault, ...]
    slice_size: int = SLICE_SIZE
    rules: tuple[Mapping[str, Any], ...] = ()
    replicas: int = 1
    buggify: tuple[str, ...] = ()
    protocol: str = ""
    greets: bool = False
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return a readable description of the script, as lines of text."""
        settings = " ".join(f"{name}={value}" for name, value in self.settings.items())
        return [
            f"seed {self.seed}, scheme {self.scheme}, {self.events} events, {self.brokers} brokers like {self.release}",
            f"settings {settings}",
            f"disk {f'syncs in {self.sync} s' if self.sync >= 0 else 'none'}",
            f"slices of {self.slice_size} elements",
            f"buggify {' '.join(self.buggify) or 'nothing'}",
            f"network transports {f'bytes, {self.protocol}' if self.protocol else 'messages'}"
            + (", ApiVersions first" if self.greets else ""),
            f"topics {' '.join(f'{name}:{count}' for name, count in self.topics.items())}",
            *(f"{name}: {' '.join(map('='.join, each.items()))}" for name, each in self.configs.items()),
            *map(str, self.members),
            *(f"rule {dict(rule)}" for rule in self.rules),
            *map(str, self.faults),
        ]
