"""What a run consists of, as data: who takes part, how the brokers are set, what goes wrong and when.

A script says everything: the same one runs the same way. Shrinking takes faults and members out of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from mockbroker.broker.broker import IN_A_SLICE

# What can go wrong, or is done, at a numbered event. ``who``: the number of a member, or of a broker.
MEMBER_FAULTS = (
    "lose-request",  # the next request never arrives, and the connection is gone
    "lose-answer",  # the next request is handled, and the connection is gone before its answer arrives
    "cut",  # both connections of a member are gone, with what is on its way
    "clog",  # nothing gets through for ``value`` seconds, in either direction
    "slow",  # each way takes ``value`` seconds more from now on
    "pause",  # the process stands still for ``value`` seconds
    "stop-polling",  # it sends heartbeats, and takes no notice of what they say, for ``value`` seconds
    "crash",  # the process is gone without a word, and back after ``value`` seconds
    "leave",  # it leaves in good order, and is back after ``value`` seconds
    "subscribe",  # it reads other topics; ``value`` chooses which
    "retire",  # an administrator takes the member out
)
BROKER_FAULTS = (
    "stall",  # the broker's loop does nothing for ``value`` seconds, while requests come in
    "jump",  # its clock is ``value`` seconds ahead, from now on
    "swizzle",  # many links are clogged one by one, and set free one by one
)
DISK_FAULTS = (
    "power",  # the process is gone, with a part of what was not synced, and back after ``value`` seconds
    "fsync",  # the next sync fails: the process ends, and nothing that waited for it is acknowledged
)
FAILOVER_FAULTS = (
    "kill-broker",  # a broker is gone; noticed some time later, and back after ``value`` seconds
    "stop-broker",  # a broker hands over and ends, and is back after ``value`` seconds
    "move",  # the groups of a partition of the offsets topic get another coordinator
    "stale",  # what a broker knows of the cluster stays as it is for ``value`` seconds
)
ADMIN_FAULTS = (
    "grow",  # a topic gets more partitions
    "delete-group",  # a group is deleted, if the brokers let it
    "delete-offsets",  # offsets of a group are deleted, if the brokers let it
    "look",  # groups are listed and described
)


@dataclass(frozen=True, slots=True)
class Fault:
    """``at``: after so many events."""

    at: int
    kind: str
    who: int = 0
    value: float = 0.0

    def __str__(self) -> str:
        return f"{self.at:6d}  {self.kind} {self.who}" + (f" {self.value:.3f}" if self.value else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberScript:
    """``kind``: eager, cooperative, consumer, committer or transactional. ``instance``: the name of a static member.

    Times in seconds; ``starts``: after the beginning. ``version``: of JoinGroup.
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

    def __str__(self) -> str:
        told = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self)[2:])
        return f"m{self.number} {self.kind} " + " ".join(told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """``events``: how long faults go on; what heals comes on top. ``settings``: by Kafka's names.

    ``sync``: seconds that a sync of the disk takes at the most; negative: there is no disk. ``in_a_slice``: elements of
    a request that are handled before other requests have their turn.
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
    in_a_slice: int = IN_A_SLICE

    def lines(self) -> list[str]:
        """To be read: what is left of it after shrinking says what is needed for the failure."""
        settings = " ".join(f"{name}={value}" for name, value in self.settings.items())
        return [
            f"seed {self.seed}, scheme {self.scheme}, {self.events} events, {self.brokers} brokers like {self.release}",
            f"settings {settings}",
            f"disk {f'syncs in {self.sync} s' if self.sync >= 0 else 'none'}",
            f"slices of {self.in_a_slice} elements",
            f"topics {' '.join(f'{name}:{count}' for name, count in self.topics.items())}",
            *map(str, self.members),
            *map(str, self.faults),
        ]
