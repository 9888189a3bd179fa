"""Schemes: functions that create a script (clients, settings, faults) from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mockbroker.broker.broker import SLICE_SIZE
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.script import (
    ADMIN_FAULTS,
    BROKER_FAULTS,
    DISK_FAULTS,
    FAILOVER_FAULTS,
    MEMBER_FAULTS,
    Fault,
    MemberScript,
    Script,
)

MOST_MEMBERS, MOST_GROUPS = 50, 5  # maximum numbers in a script
JAVA, SCALA = "4.2", "3.9"  # the two group coordinators of Kafka
ONE_FAULT_IN = 60  # minimum number of events per fault of each kind
STATIC_KINDS = ("eager", "cooperative", "consumer")

# Kind of fault -> maximum duration in seconds; other kinds have no duration.
LONGEST: Mapping[str, float] = {
    "clog": 15.0,
    "slow": 0.4,
    "pause": 20.0,
    "stop-polling": 40.0,
    "crash": 30.0,
    "leave": 20.0,
    "subscribe": 1.0,
    "retire": 1.0,
    "power": 10.0,
    "kill-broker": 10.0,
    "stop-broker": 10.0,
    "stale": 5.0,
    "stall": 12.0,
    "jump": 15.0,
    "swizzle": 8.0,
    "grow": 1.0,
    "delete-group": 1.0,
    "delete-offsets": 1.0,
    "look": 1.0,
}


def swarm(seed: int, events: int) -> Script:
    """Return a script with a random subset of the kinds of faults; each kind occurs a random number of times."""
    dice = Dice("swarm", seed)
    kinds = [kind for kind in (*MEMBER_FAULTS, *BROKER_FAULTS, *FAILOVER_FAULTS, *DISK_FAULTS) if dice.chance(0.5)]
    return _script("swarm", dice, seed, events, [*kinds, *ADMIN_FAULTS])


def lite(seed: int, events: int) -> Script:
    """Return a script in which only clients and brokers crash and restart."""
    return _script("lite", Dice("lite", seed), seed, events, ["crash", "power", "kill-broker"])


def calm(seed: int, events: int) -> Script:
    """Return a script without faults: clients leave and return, topics grow, groups are described."""
    return _script("calm", Dice("calm", seed), seed, events, ["leave", "grow", "look"])


def rules(seed: int, events: int) -> Script:
    """Return a script of the scheme swarm whose broker also has fault rules."""
    return replace(swarm(seed, events), scheme="rules", rules=_rules(Dice("rules", seed)))


SCHEMES: Mapping[str, Callable[[int, int], Script]] = {"swarm": swarm, "lite": lite, "calm": calm, "rules": rules}
ERRORS: Mapping[str, list[str]] = {  # retriable errors by API
    "JoinGroup": ["COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"],
    "SyncGroup": ["REBALANCE_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"],
    "Heartbeat": ["REBALANCE_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"],
    "ConsumerGroupHeartbeat": ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"],
    "OffsetCommit": ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"],
    "OffsetFetch": ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"],
    "FindCoordinator": ["COORDINATOR_NOT_AVAILABLE"],
}
MOST_RULES = 4


def _rules(dice: Dice) -> tuple[Mapping[str, Any], ...]:
    """Return random fault rules."""
    return tuple(_rule(dice, number) for number in range(dice.whole(1, MOST_RULES)))


def _rule(dice: Dice, number: int) -> Mapping[str, Any]:
    api = dice.pick(list(ERRORS))
    when = dice.pick(["before", "after"])
    action = dice.pick(
        [
            {"error": dice.pick(ERRORS[api])},
            {"delay_ms": dice.whole(1, 2_000), "jitter_ms": dice.whole(0, 500), "when": when},
            {"disconnect": dice.pick(["before", "after", "mid-response"])},
            {"no_response": True, "when": when},
            {"hold": True, "when": when},
        ]
    )
    occurrence = {
        "skip": dice.below(20),
        "every": dice.whole(1, 10),
        "probability": dice.pick([0.2, 1]),
        "seed": dice.below(1_000),
        "times": dice.whole(1, 10),
    }
    return {"name": f"rule-{number}", "match": {"api": api}, "occurrence": occurrence, "action": action}


def _script(scheme: str, dice: Dice, seed: int, events: int, kinds: list[str]) -> Script:
    release = SCALA if dice.chance(0.25) else JAVA
    topics = {f"t{number}": dice.whole(1, 8) for number in range(dice.whole(1, 4))}
    members = _members(dice, release, sorted(topics))
    brokers = dice.whole(1, 3)
    faults = [
        Fault(
            at=dice.below(events),
            kind=kind,
            target=dice.below(len(members)) if kind in MEMBER_FAULTS else dice.below(brokers),
            value=round(dice.between(0.05, LONGEST[kind]) * dice.random(), 3) if kind in LONGEST else 0.0,
        )
        for kind in kinds
        for _ in range(dice.whole(1, max(events // ONE_FAULT_IN, 1)))
    ]
    settings: dict[str, object] = {
        "group.initial.rebalance.delay.ms": dice.pick([0, 100, 1_000, 3_000]),
        "group.min.session.timeout.ms": 100,
        "group.consumer.session.timeout.ms": dice.pick([3_000, 6_000, 12_000]),
        "group.consumer.heartbeat.interval.ms": dice.pick([500, 1_000, 2_000]),
        "group.consumer.assignors": dice.pick(["uniform,range", "range"]),
        "offsets.topic.num.partitions": dice.pick([1, 4, 10]),
        "transaction.state.log.num.partitions": 3,
        "mockbroker.coordinator.load.ms": dice.pick([0, 0, 200, 1_000]),
    }
    return Script(
        seed=seed,
        scheme=scheme,
        events=events,
        brokers=brokers,
        release=release,
        settings=settings,
        topics=topics,
        sync=dice.pick([0.0, 0.002, 0.02, 0.2]) if dice.chance(0.7) else -1.0,
        members=members,
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        slice_size=_slice_size(seed),
    )


def _slice_size(seed: int) -> int:
    """Return the slice size of a script: SLICE_SIZE, but 1 to 3 elements for 30 % of the seeds.

    With small slices, other requests interrupt nearly every request.
    """
    dice = Dice("slices", seed)
    return dice.pick([1, 2, 3]) if dice.chance(0.3) else SLICE_SIZE


def _members(dice: Dice, release: str, topics: list[str]) -> tuple[MemberScript, ...]:
    """Return random members. Small groups are more frequent, because most failures are found sooner with them."""
    groups = dice.whole(1, MOST_GROUPS)
    protocols = ["eager", "cooperative", "simple"] + ([] if release == SCALA else ["consumer", "consumer"])
    chosen = [dice.pick(protocols) for _ in range(groups)]
    session, heartbeat = dice.pick([(3.0, 1.0), (6.0, 2.0), (10.0, 3.0)])
    rebalance = dice.pick([4.0, 10.0, 20.0])
    static_part, simple_part = dice.pick([0.0, 0.3, 1.0]), dice.pick([0.0, 0.0, 0.2])
    read = {number: tuple(dice.some(topics)) for number in range(groups)}
    one_by_one = dice.chance(0.5)
    members: list[MemberScript] = []
    for number in range(max(dice.whole(1, 6) if dice.chance(0.7) else dice.whole(1, MOST_MEMBERS), 1)):
        group = dice.below(groups)
        kind = chosen[group]
        if kind == "simple" or dice.chance(simple_part):
            kind = dice.pick(["committer", "transactional"])
        static = kind in STATIC_KINDS and dice.chance(static_part)
        members.append(
            MemberScript(
                number=number,
                kind=kind,
                group=f"g{group}",
                topics=read[group],
                instance=f"i{number}" if static else None,
                starts=round(dice.between(0.0, 20.0 if one_by_one else 0.1), 3),
                session=session,
                rebalance=rebalance,
                heartbeat=heartbeat,
                commit=dice.pick([1.0, 2.0, 5.0]),
                delay=dice.pick([0.001, 0.005, 0.05]),
                version=dice.pick([5, 9]) if static else dice.pick([3, 5, 9]),
            )
        )
    return tuple(members)
