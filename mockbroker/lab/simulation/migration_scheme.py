"""The scheme migration: in each group, some members use the classic protocol and some the consumer protocol. Members
also change their protocol.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.script import Fault, MemberScript, Script

CONSUMER = "consumer"
REGEXES = ("t.*", "t[01]", "t[0-2]", "t0|t3")
REGEX_GROUPS = 0.3  # probability that members of a group subscribe to a regular expression
SWITCHES = 12  # maximum number of members that change their protocol
LONGEST_SWITCH = 10.0  # maximum seconds between the stop of a process and its start with the other protocol


def migrating(base: Script) -> Script:
    """Return a script in which the members of each group use both protocols, and change their protocol.

    The script does not use the policies ``downgrade`` and ``disabled``. With these policies, members of the consumer
    protocol cannot join a classic group, so the group would never become stable.

    Args:
        base: a script of the scheme swarm with the release 4.2.
    """
    dice = Dice("migration", base.seed)
    groups = sorted({member.group for member in base.members})
    classic = {group: dice.pick(["eager", "cooperative"]) for group in groups}
    share = {group: dice.pick([0.2, 0.5, 0.8]) for group in groups}
    static = dice.pick([0.0, 0.3, 1.0])
    regexes = {group: dice.pick(REGEXES) if dice.chance(REGEX_GROUPS) else "" for group in groups}
    members = tuple(
        _member(dice, each, classic[each.group], share[each.group], static, regexes[each.group], base.topics)
        for each in base.members
    )
    switches = tuple(
        Fault(
            at=dice.below(base.events),
            kind="switch",
            target=dice.below(len(members)),
            value=round(LONGEST_SWITCH * dice.random() ** 2, 3),
        )
        for _ in range(dice.whole(1, SWITCHES))
    )
    settings = {"group.consumer.migration.policy": dice.pick(["bidirectional", "bidirectional", "upgrade"])}
    return replace(
        base,
        scheme="migration",
        members=members,
        faults=tuple(sorted((*base.faults, *switches), key=lambda fault: fault.at)),
        settings={**base.settings, **settings},
    )


def _member(
    dice: Dice,
    member: MemberScript,
    classic: str,
    share: float,
    static: float,
    regex: str,
    topics: Iterable[str],
) -> MemberScript:
    """Return a member of a mixed group.

    Args:
        dice: random number generator.
        member: the member of the scheme swarm.
        classic: kind of the group's classic members, which must all use the same protocols.
        share: probability of the consumer protocol.
        static: probability that the member is static.
        regex: regular expression of some members of the group, while they use the consumer protocol; "" for none.
        topics: topics of the script.
    """
    kind, other = (CONSUMER, classic) if dice.chance(share) else (classic, CONSUMER)
    instance = f"i{member.number}" if dice.chance(static) else None
    version = dice.pick([5, 9]) if instance else dice.pick([3, 5, 9])
    if regex and dice.chance(0.7):
        matching = tuple(name for name in sorted(topics) if re.fullmatch(regex, name))
        member = replace(member, topics=matching or member.topics, regex=regex if matching else "")
    return replace(member, kind=kind, other=other, instance=instance, version=version)
