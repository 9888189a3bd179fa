"""The scripts of the scheme ``upkeep``: retention, compaction, expiry and client quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mockbroker.base.settings import Settings
from mockbroker.lab.simulation.clients.expiry_prober import OFFSET, PRODUCER_ID, TRANSACTIONAL_ID
from mockbroker.lab.simulation.clients.throttled import CONSUMER, MUTATION, PRODUCER
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.script import MEMBER_FAULTS, MemberScript, Script
from mockbroker.lab.simulation.upkeep_history import Policy, Upkeep

AGED, COMPACTED, PLAIN = "aged", "compacted", "plain"
PROBERS = ("offset-prober", "transactional-id-prober", "producer-id-prober")
THROTTLED = {"throttled-producer": PRODUCER, "throttled-consumer": CONSUMER, "throttled-administrator": MUTATION}
MOST_KEEPERS = 3


def upkeeping(script: Script) -> Script:
    """Return a script whose clients are replaced by clients that depend on retention, compaction, expiry and quotas.

    ``script``: a script that determines brokers, disk and faults.
    """
    dice = Dice("upkeep", script.seed)
    configs: dict[str, Mapping[str, str]] = {AGED: _retention(dice), COMPACTED: _compaction(dice), PLAIN: {}}
    topics = {AGED: dice.whole(1, 2), COMPACTED: dice.whole(1, 2), PLAIN: 1}
    kinds = ["keeper"] * dice.whole(1, MOST_KEEPERS) + [kind for kind in PROBERS if dice.chance(0.6)]
    throttled = [kind for kind in THROTTLED if dice.chance(0.6)] if dice.chance(0.6) else []
    members = [_member(dice, number, kind) for number, kind in enumerate([*kinds, *throttled])]
    if throttled:
        quotas = " ".join(f"{each.number}:{THROTTLED[each.kind]}" for each in members if each.kind in THROTTLED)
        setter = MemberScript(number=len(members), kind="quota-setter", group="", topics=(PLAIN,), instance=quotas)
        members.append(replace(setter, commit=dice.pick([10.0, 30.0, 100.0])))
    faults = tuple(
        replace(fault, target=dice.below(len(members))) if fault.kind in MEMBER_FAULTS else fault
        for fault in script.faults
    )
    settings = {
        **script.settings,
        "log.retention.check.interval.ms": dice.pick([500, 2_000]),
        "log.cleaner.backoff.ms": dice.pick([200, 2_000]),
        "offsets.retention.minutes": 1,
        "offsets.retention.check.interval.ms": dice.pick([500, 5_000]),
        "transactional.id.expiration.ms": dice.pick([10_000, 30_000]),
        "transaction.remove.expired.transaction.cleanup.interval.ms": dice.pick([500, 5_000]),
        "producer.id.expiration.ms": dice.pick([5_000, 20_000]),
        "producer.id.expiration.check.interval.ms": dice.pick([500, 5_000]),
        "quota.window.num": dice.pick([2, 5, 11]),
        "controller.quota.window.num": dice.pick([2, 11]),
    }
    return replace(
        script,
        topics=topics,
        configs=configs,
        members=tuple(members),
        faults=faults,
        settings=settings,
        replicas=dice.whole(1, 3),
        protocol="PLAINTEXT" if throttled else "",  # a quota counts bytes
    )


def _member(dice: Dice, number: int, kind: str) -> MemberScript:
    topics = (AGED, COMPACTED) if kind == "keeper" else (PLAIN,)
    commit = dice.pick([0.1, 0.3]) if kind in THROTTLED else dice.pick([0.1, 0.3, 1.0])
    delay, starts = dice.pick([0.001, 0.005, 0.05]), round(dice.between(0.0, 5.0), 3)
    return MemberScript(
        number=number, kind=kind, group=f"g{number}", topics=topics, starts=starts, commit=commit, delay=delay
    )


def _retention(dice: Dice) -> Mapping[str, str]:
    return {
        "segment.ms": dice.pick(["500", "3000"]),
        "retention.ms": dice.pick(["2000", "8000", "-1"]),
        "retention.bytes": dice.pick(["-1", "2000", "10000"]),
    }


def _compaction(dice: Dice) -> Mapping[str, str]:
    configs = {
        "cleanup.policy": "compact",
        "segment.ms": dice.pick(["300", "2000"]),
        "min.cleanable.dirty.ratio": dice.pick(["0", "0.1", "0.5"]),
        "min.compaction.lag.ms": dice.pick(["0", "0", "1000", "4000"]),
        "delete.retention.ms": dice.pick(["0", "2000", "8000"]),
    }
    return configs | ({"max.compaction.lag.ms": "5000"} if dice.chance(0.4) else {})


def upkeep_of(script: Script, settings: Settings) -> Upkeep:
    """Return the empty history of a script's clients, with the limits that apply to them.

    Args:
        script: the script.
        settings: the settings of its brokers.
    """
    return Upkeep(
        policies={name: Policy.of(configs) for name, configs in script.configs.items()},
        expirations={
            OFFSET: settings.offsets_retention_minutes * 60.0,
            TRANSACTIONAL_ID: settings.transactional_id_expiration_ms / 1000,
            PRODUCER_ID: settings.producer_id_expiration_ms / 1000,
        },
        window=(float(settings.quota_window_size_seconds), settings.quota_window_num),
        burst=float(settings.controller_quota_window_num * settings.controller_quota_window_size_seconds),
        compaction_interval=settings.log_cleaner_backoff_ms / 1000,
        retention_interval=settings.log_retention_check_interval_ms / 1000,
    )
