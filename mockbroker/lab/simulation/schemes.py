"""Schemes: functions that create a script (clients, settings, faults) from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mockbroker.broker.broker import SLICE_SIZE
from mockbroker.lab.simulation.buggify import POINTS
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.migration_scheme import migrating
from mockbroker.lab.simulation.operators_scheme import logged_in, with_operators
from mockbroker.lab.simulation.script import (
    ADMIN_FAULTS,
    BROKER_FAULTS,
    DISK_FAULTS,
    FAILOVER_FAULTS,
    LEADER_FAULTS,
    MEMBER_FAULTS,
    VANISH,
    Fault,
    MemberScript,
    Script,
)
from mockbroker.lab.simulation.tcp.client_end import SASL_PROTOCOLS
from mockbroker.lab.simulation.upkeep_scheme import upkeeping

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MOST_MEMBERS, MOST_GROUPS = 50, 5  # maximum numbers in a script
JAVA, SCALA = "4.2", "3.9"  # the two group coordinators of Kafka
ONE_FAULT_IN = 60  # minimum number of events per fault of each kind
EVERY_MEMBER = tuple(kind for kind in MEMBER_FAULTS if kind != "switch")  # faults of all kinds of members
# The order of the kinds decides which random number a kind gets.
FAULTS = (*EVERY_MEMBER, *BROKER_FAULTS, *FAILOVER_FAULTS, *DISK_FAULTS)
FAULTS_WITH_RECORDS = (*EVERY_MEMBER, *BROKER_FAULTS, *FAILOVER_FAULTS, *LEADER_FAULTS, *DISK_FAULTS)
NOT_IN_UPKEEP = ("subscribe", "retire", "stop-polling")  # no client of the scheme upkeep is a member of a group
STATIC_KINDS = ("eager", "cooperative", "consumer")

# Kind of fault -> maximum value; the value of other kinds is 0. It is a duration in seconds, but selects the topics of
# ``subscribe``, and is ignored by retire, grow, delete-group, delete-offsets and look.
MOST_VALUE: Mapping[str, float] = {
    "clog": 15.0,
    "slow": 0.4,
    "pause": 20.0,
    "stop-polling": 40.0,
    "crash": 30.0,
    "leave": 20.0,
    "subscribe": 1.0,
    "retire": 1.0,
    "switch": 10.0,
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
    """Return a script with classic and consumer groups, and with random faults.

    Each kind of fault occurs with a probability of 50 %; operations of an administrator always occur.

    Args:
        seed: seed of all random choices.
        events: number of events in the phase with faults.
    """
    dice = Dice("swarm", seed)
    kinds = _some_kinds(dice, FAULTS)
    return _script("swarm", dice, seed, events, [*kinds, *ADMIN_FAULTS])


def lite(seed: int, events: int) -> Script:
    """Return a script whose only faults are crashes and restarts of clients and brokers.

    Args:
        seed: seed of all random choices.
        events: number of events in the phase with faults.
    """
    return _script("lite", Dice("lite", seed), seed, events, ["crash", "power", "kill-broker"])


def calm(seed: int, events: int) -> Script:
    """Return a script without faults: clients leave and return, topics get partitions, and an admin describes groups.

    Args:
        seed: seed of all random choices.
        events: number of events in the first phase.
    """
    return _script("calm", Dice("calm", seed), seed, events, ["leave", "grow", "look"])


def rules(seed: int, events: int) -> Script:
    """Return a script as from ``swarm``, in which the broker also has fault rules.

    Args:
        seed: seed of all random choices.
        events: number of events in the phase with faults.
    """
    return replace(swarm(seed, events), scheme="rules", rules=_rules(Dice("rules", seed)))


def streams(seed: int, events: int) -> Script:
    """Return a script as from ``swarm``, in which all clients are members of streams groups.

    The faults ``subscribe`` and ``retire`` do not occur.

    Args:
        seed: seed of all random choices.
        events: number of events in the phase with faults.
    """
    dice = Dice("streams", seed)
    kinds = _some_kinds(dice, FAULTS, without=("subscribe", "retire"))
    script = _script("streams", dice, seed, events, [*kinds, *ADMIN_FAULTS])
    settings = {
        "group.streams.session.timeout.ms": dice.pick([3_000, 6_000, 12_000]),
        "group.streams.heartbeat.interval.ms": dice.pick([500, 1_000, 2_000]),
        "group.streams.initial.rebalance.delay.ms": dice.pick([0, 100, 3_000]),
        "group.streams.num.standby.replicas": dice.pick([0, 0, 1, 2]),
    }
    return replace(
        script,
        release=JAVA,
        members=tuple(replace(member, kind="streams", instance=None) for member in script.members),
        settings={**script.settings, **settings},
    )


def shares(seed: int, events: int) -> Script:
    """Return a script as from ``swarm``, in which all clients are members of share groups.

    Args:
        seed: seed of all random choices.
        events: number of events in the phase with faults.
    """
    dice = Dice("shares", seed)
    base = swarm(seed, events)
    topics = {name: min(count, 3) for name, count in base.topics.items()}
    members = tuple(
        replace(
            member,
            kind="share",
            group=f"s{member.number % 2}",
            topics=tuple(dice.some(sorted(topics))),
            instance=None,
            heartbeat=1.0,
            commit=dice.pick([0.2, 1.0, 2.0]),
        )
        for member in base.members
    )
    settings = {
        "group.share.session.timeout.ms": dice.pick([3_000, 6_000]),
        "group.share.heartbeat.interval.ms": 1_000,
        "group.share.record.lock.duration.ms": dice.pick([1_000, 3_000]),
        "group.share.delivery.count.limit": dice.pick([2, 3, 5]),
        "group.share.partition.max.record.locks": 100,
        "share.coordinator.state.topic.num.partitions": 3,
        "share.coordinator.snapshot.update.records.per.snapshot": dice.pick([2, 5, 20]),
    }
    return replace(
        base, scheme="shares", release=JAVA, topics=topics, members=members, settings={**base.settings, **settings}
    )


def migration(seed: int, events: int) -> Script:
    """Return a script as from ``swarm``, in which the members of each group use both protocols and change between them.

    Args:
        seed: seed of all random choices.
        events: number of events in the phase with faults.
    """
    dice = Dice("migration of swarm", seed)
    kinds = _some_kinds(dice, FAULTS)
    return migrating(replace(_script("migration", dice, seed, events, [*kinds, *ADMIN_FAULTS]), release=JAVA))


OPERATED = 0.5  # probability that a script of the scheme admin has operators
MOST_OF_A_SCHEME = 4  # maximum number of clients of each other scheme in a script of the scheme mix
PRODUCERS = ("producer", "idempotent-producer", "transactional-producer", "transactional-producer")
READERS = ("classic-reader", "consumer-reader", "classic-processor", "consumer-processor")
PROCESSORS = ("classic-processor", "consumer-processor")
# The model of committed offsets expects that a transaction with offsets of a group ends at once.
COMMITS_IN_TRANSACTIONS = {*PROCESSORS, "transactional"}
LEGACY = {"consumer-reader": "classic-reader", "consumer-processor": "classic-processor"}  # before KIP-848


def data(seed: int, events: int) -> Script:
    """Return a script whose clients produce and consume records, with random faults.

    Each kind of fault occurs with a probability of 50 %. Two kinds do not occur (``subscribe`` and ``retire``), and two
    always occur: topics get more partitions, and an admin describes groups.

    Args:
        seed: seed of all random choices.
        events: number of events in the phase with faults.
    """
    dice = Dice("data", seed)
    kinds = _some_kinds(dice, FAULTS_WITH_RECORDS, without=("subscribe", "retire"))
    base = _script("data", dice, seed, events, [*kinds, "grow", "look"])
    names = dice.pick([1, 1, 2, 3])
    topics = {f"t{number}": dice.whole(1, 4) for number in range(names)}
    groups = [dice.pick(READERS) for _ in range(dice.whole(1, 2))]
    if base.release == SCALA:
        groups = [LEGACY.get(kind, kind) for kind in groups]
    members = _data_members(dice, base.release, sorted(topics), groups)
    numbers = [member.number for member in members]
    faults = tuple(
        replace(fault, target=dice.pick(numbers)) if fault.kind in MEMBER_FAULTS else fault for fault in base.faults
    )
    settings = {
        **base.settings,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
        "mockbroker.transaction.completion.ms": 0 if COMMITS_IN_TRANSACTIONS & set(groups) else dice.pick([0, 50, 500]),
        "max.incremental.fetch.session.cache.slots": dice.pick([0, 8, 1_000]),
    }
    return replace(
        base,
        topics=topics,
        members=members,
        faults=faults,
        settings=settings,
        replicas=dice.whole(1, 3),
        rules=_refusals(seed),
        buggify=_buggify(seed),
    )


def admin(seed: int, events: int) -> Script:
    """Return a script as from ``data``, with an administrator, and a client that is affected by the administrator's
    changes.

    Metadata is never stale in this script, because the administrator checks the effect of its changes.

    Args:
        seed: seed of all random choices.
        events: number of events in the phase with faults.
    """
    dice = Dice("admin", seed)
    base = data(seed, events)
    commit = dice.pick([0.1, 0.3, 1.0])
    extra = tuple(
        MemberScript(number=number, kind=kind, group="", topics=tuple(sorted(base.topics)), commit=commit)
        for number, kind in enumerate(("administrator", "prober"), len(base.members))
    )
    settings = {
        **base.settings,
        "authorizer.class.name": AUTHORIZER,
        "allow.everyone.if.no.acl.found": True,
        "mockbroker.replica.catch.up.ms": dice.pick([0, 500, 3_000]),
    }
    faults = tuple(
        replace(fault, target=dice.below(len(base.members) + len(extra))) if fault.kind in MEMBER_FAULTS else fault
        for fault in base.faults
        if fault.kind != "stale"
    )
    script = replace(base, scheme="admin", members=(*base.members, *extra), faults=faults, settings=settings)
    if Dice("whether admin has operators", seed).chance(OPERATED):
        return with_operators(script, is_new=base.release == JAVA)
    return script


def _buggify(seed: int) -> tuple[str, ...]:
    """Return the active buggify points of a seed: each point is active with a probability of 30 %."""
    dice = Dice("buggify", seed)
    return tuple(name for name in POINTS if dice.chance(0.3))


def _refusals(seed: int) -> tuple[Mapping[str, Any], ...]:
    """Return the fault rules of a script of ``data``: in 30 % of the seeds, some Produce requests get a retriable
    error.

    When an idempotent producer receives the error, its next batches may already be in flight. The broker must reject
    these batches, because their sequence numbers leave a gap.

    ``seed``: seed of the script. For the remaining seeds, the result is ().
    """
    dice = Dice("refusals", seed)
    if not dice.chance(0.3):
        return ()
    occurrence = {"probability": dice.pick([0.05, 0.2]), "seed": dice.below(1_000), "times": dice.whole(5, 50)}
    action = {"error": dice.pick(["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS"])}
    return ({"name": "refusal", "match": {"api": "Produce"}, "occurrence": occurrence, "action": action},)


def _data_members(dice: Dice, release: str, topics: list[str], groups: list[str]) -> tuple[MemberScript, ...]:
    """Return random producers and consumers.

    Args:
        dice: random number generator.
        release: emulated Kafka release.
        topics: names of the topics.
        groups: member kind of each group.
    """
    session, heartbeat = dice.pick([(3.0, 1.0), (6.0, 2.0)])
    rebalance, delay = dice.pick([4.0, 10.0]), dice.pick([0.001, 0.005, 0.05])
    kinds = [(dice.pick(PRODUCERS), "") for _ in range(dice.whole(1, 4))]
    for number, kind in enumerate(groups):
        kinds += [(kind, f"g{number}")] * dice.whole(1, 3)
        if kind in PROCESSORS:
            kinds.append(("offset-viewer", f"g{number}"))
    read = {f"g{number}": tuple(dice.some(topics)) for number in range(len(groups))}
    ids = [f"x{dice.below(2)}" if kind == "transactional-producer" else None for kind, _ in kinds]
    new = {each: dice.chance(0.5) for each in ("x0", "x1")}  # all clients of a transactional id have the same flow
    return tuple(
        MemberScript(
            number=number,
            kind=kind,
            group=group,
            topics=read.get(group, tuple(topics)),
            instance=ids[number],
            starts=round(dice.between(0.0, 5.0), 3),
            session=session,
            rebalance=rebalance,
            heartbeat=heartbeat,
            commit=dice.pick([0.3, 1.0, 2.0]),
            delay=delay,
            kip890=release == JAVA and new.get(ids[number] or "", number % 2 == 0),
        )
        for number, (kind, group) in enumerate(kinds)
    )


def mix(seed: int, events: int) -> Script:
    """Return a script as from ``data``, with some clients of the schemes ``swarm``, ``shares`` and ``streams`` added.

    A further client sends requests that only read. In 20 % of the seeds, the broker also has the fault rules of the
    scheme ``rules``.

    Args:
        seed: seed of all random choices.
        events: number of events in the phase with faults.
    """
    dice = Dice("mix", seed)
    base = data(seed, events)
    parts = [scheme(seed, events) for scheme in (swarm, shares, streams) if dice.chance(0.5)]
    if base.release == SCALA:
        parts = []  # only swarm has clients for this release
    members = list(base.members)
    settings: dict[str, object] = {}
    for part in parts:
        settings |= part.settings
        for member in dice.shuffled(part.members)[: dice.whole(1, MOST_OF_A_SCHEME)]:
            # One group has members of one scheme.
            group = f"{part.scheme}-{member.group}"
            topics = tuple(name for name in member.topics if name in base.topics) or tuple(sorted(base.topics))
            members.append(replace(member, number=len(members), group=group, topics=topics))
    settings |= base.settings
    if any(member.kind in COMMITS_IN_TRANSACTIONS for member in members):
        settings["mockbroker.transaction.completion.ms"] = 0
    # As many faults of clients as in the scheme data, with all clients as targets.
    faults = tuple(
        replace(fault, target=dice.below(len(members))) if fault.kind in MEMBER_FAULTS else fault
        for fault in base.faults
    )
    if base.release == JAVA:  # the describer sends requests that an earlier release does not have
        commit, topics = Dice("describer", seed).pick([0.1, 0.5, 2.0]), tuple(sorted(base.topics))
        members.append(MemberScript(number=len(members), kind="describer", group="", topics=topics, commit=commit))
    script = replace(
        base,
        scheme="mix",
        members=tuple(members),
        faults=faults,
        settings=settings,
        rules=(*base.rules, *(_rules(dice) if dice.chance(0.2) else ())),
    )
    return with_operators(script, is_new=base.release == JAVA)


def upkeep(seed: int, events: int) -> Script:
    """Return a script whose clients depend on retention, compaction, expiry and client quotas.

    Args:
        seed: seed of all random choices.
        events: number of events in the phase with faults.
    """
    dice = Dice("faults of upkeep", seed)
    kinds = _some_kinds(dice, FAULTS_WITH_RECORDS, without=NOT_IN_UPKEEP, probability=0.4)
    return upkeeping(_script("upkeep", dice, seed, events, [*kinds, "look"]))


PROTOCOLS = ("PLAINTEXT", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
GREETING = 0.5  # probability that the clients of a script of the scheme bytes send ApiVersions first
ALL_MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"


def in_bytes(seed: int, events: int) -> Script:
    """Return a script in which the network transports bytes: TCP segments, TLS records, SASL tokens.

    The clients and faults are those of a scheme that is chosen at random: swarm, rules, data, mix, shares or streams.
    Up to three faults are added, in which the machine of a client vanishes without closing its connections. The
    security protocol, the idle timeout and the limits of queued request and response bytes are chosen at random.

    Args:
        seed: seed of all random choices.
        events: number of events in the phase with faults.
    """
    dice = Dice("bytes", seed)
    base = dice.pick([swarm, rules, data, data, mix, shares, streams])(seed, events)
    vanishings = tuple(
        Fault(dice.below(events), VANISH, dice.below(len(base.members)), round(dice.between(0.05, 30.0), 3))
        for _ in range(dice.below(4))
    )
    settings = {
        **base.settings,
        "sasl.enabled.mechanisms": ALL_MECHANISMS,
        "connections.max.idle.ms": dice.pick([10_000, 60_000, 600_000]),
        "queued.max.request.bytes": dice.pick([-1, -1, 2_000]),
        "mockbroker.queued.max.response.bytes": dice.pick([1 << 28, 1 << 28, 20_000]),
    }
    faults = tuple(sorted((*base.faults, *vanishings), key=lambda fault: fault.at))
    script = replace(base, scheme="bytes", faults=faults, settings=settings, protocol=dice.pick(PROTOCOLS))
    script = replace(script, greets=Dice("greetings", seed).chance(GREETING))
    return logged_in(script) if script.protocol in SASL_PROTOCOLS else script


SCHEMES: Mapping[str, Callable[[int, int], Script]] = {
    "swarm": swarm,
    "lite": lite,
    "calm": calm,
    "rules": rules,
    "migration": migration,
    "streams": streams,
    "shares": shares,
    "data": data,
    "admin": admin,
    "mix": mix,
    "bytes": in_bytes,
    "upkeep": upkeep,
}
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
    """Return random fault rules for the broker, as JSON objects. ``dice``: random number generator."""
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


def _some_kinds(
    dice: Dice, kinds: Sequence[str], *, without: Sequence[str] = (), probability: float = 0.5
) -> list[str]:
    """Return a random choice of kinds of faults, in the same order.

    Args:
        dice: random number generator.
        kinds: kinds of faults.
        without: kinds that are never chosen; no random number is drawn for them.
        probability: probability with which each other kind is chosen.
    """
    return [kind for kind in kinds if kind not in without and dice.chance(probability)]


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
            value=round(dice.between(0.05, MOST_VALUE[kind]) * dice.random(), 3) if kind in MOST_VALUE else 0.0,
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
    """Return the slice size for a seed, in elements: SLICE_SIZE, or 1 to 3 for 30 % of the seeds.

    A slice is the part of a request that is handled before other requests get a turn. With a small slice size, the
    broker divides most requests into several slices, and handles other requests between the slices.
    """
    dice = Dice("slices", seed)
    return dice.pick([1, 2, 3]) if dice.chance(0.3) else SLICE_SIZE


def _members(dice: Dice, release: str, topics: list[str]) -> tuple[MemberScript, ...]:
    """Return random members of classic and consumer groups, and a few clients that are not members.

    Small groups are more frequent, because they expose most failures sooner.

    Args:
        dice: random number generator.
        release: emulated Kafka release.
        topics: names of the topics.
    """
    groups = dice.whole(1, MOST_GROUPS)
    protocols = ["eager", "cooperative", "simple"] + ([] if release == SCALA else ["consumer", "consumer"])
    chosen = [dice.pick(protocols) for _ in range(groups)]
    session, heartbeat = dice.pick([(3.0, 1.0), (6.0, 2.0), (10.0, 3.0)])
    rebalance = dice.pick([4.0, 10.0, 20.0])
    static_part, simple_part = dice.pick([0.0, 0.3, 1.0]), dice.pick([0.0, 0.0, 0.2])
    read = {number: tuple(dice.some(topics)) for number in range(groups)}
    one_by_one = dice.chance(0.5)
    members: list[MemberScript] = []
    for number in range(dice.whole(1, 6) if dice.chance(0.7) else dice.whole(1, MOST_MEMBERS)):
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
