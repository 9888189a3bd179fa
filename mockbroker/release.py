"""Releases of Kafka that a cluster can be like: what they serve, and where their group coordinators differ.

Version ranges are recorded from real brokers. What no handler here serves is not advertised, whatever the release had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kwire.schema import Versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """``served``: versions by API key that this release had where it had fewer than 4.2.

    ``java_coordinator``: the one in Java (default since 4.0); before, the one in Scala. Where they differ:

    - a SyncGroup in Stable renews the session of the member (Scala),
    - the initial delay is stretched by members that join in generation 0 (Scala), or whenever the group was empty,
    - a member's last assignment is described in every state (Java), or only in Stable,
    - of protocols with as many votes the first in HashMap order wins (Java), or the last,
    - OffsetCommit v9 for a group that is not there is GROUP_ID_NOT_FOUND (Java), or ILLEGAL_GENERATION as before,
    - a join phase may end when a JoinGroup is refused for the size of the group (Scala), or does not (Java),
    - an empty group goes with the last offset that OffsetDelete takes (Scala), or stays (Java),
    - OffsetFetch v8+ that names no group is answered (Java), or never.

    ``kip890``: transactions as since 4.0, in part also for clients of the flow before. Where it is not there:

    - a producer whose transaction took too long is fenced for good, and cannot say who it was to go on,
    - in a partition where a producer has a transaction open, a batch of a later epoch is not checked with the
      coordinator,
    - the start of the last transaction is told until the next begins.

    ``features``: finalized levels by name, as ApiVersions tells them.
    """

    name: str
    java_coordinator: bool = True
    kip890: bool = True
    features: Mapping[str, int] = field(default_factory=dict)
    served: Mapping[int, Versions] = field(default_factory=dict)

    def limit(self, api_key: int, versions: Versions) -> Versions:
        """Of these versions of an API, those that the release had."""
        had = self.served.get(api_key, versions)
        assert versions.last is not None
        assert had.last is not None
        return Versions(max(versions.first, had.first), min(versions.last, had.last))


KAFKA_4_2 = Release(
    name="4.2",
    features={
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "metadata.version": 29,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    },
)
KAFKA_3_9 = Release(
    name="3.9",
    java_coordinator=False,
    kip890=False,
    features={"metadata.version": 21},
    served={
        0: Versions(0, 11),
        1: Versions(0, 17),
        2: Versions(0, 9),
        3: Versions(0, 12),
        8: Versions(0, 9),
        9: Versions(0, 9),
        15: Versions(0, 5),
        26: Versions(0, 4),
        27: Versions(0, 1),
        28: Versions(0, 4),
        60: Versions(0, 1),
        66: Versions(0, 1),
        68: Versions(0, 0),
        69: Versions(0, 0),
    },
)
RELEASES = {release.name: release for release in (KAFKA_3_9, KAFKA_4_2)}
