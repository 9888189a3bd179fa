"""The operators of a script: clients that send one administrative request after the other, and check the responses."""

from __future__ import annotations

from dataclasses import replace

from mockbroker.lab.simulation.clients.cluster_operators import DIRECTORIES
from mockbroker.lab.simulation.clients.token_operator import AUTHENTICATED, SWEEP_MS
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.script import MEMBER_FAULTS, MemberScript, Script

TOKENS, LOGINS = "token-operator", "login-operator"
ELECTOR = "leader-elector"  # needs metadata that is not stale
OPERATORS = (
    "credential-operator",
    "config-replacer",
    "replica-mover",
    "unregisterer",
    "marker-writer",
    ELECTOR,
    TOKENS,
)
NEW_OPERATORS = ("feature-operator", "share-offset-operator", "share-state-operator", "telemetry-client")  # Kafka 4.2
LOGIN_OPERATORS = (TOKENS, "credential-operator", LOGINS)  # in scripts whose clients log in
MOST_OPERATORS = 4
SHARE_SESSION = 6.0  # seconds
IN_BYTES = 0.4  # probability that a script of the scheme bytes has operators, if its clients log in


def with_operators(script: Script, *, is_new: bool) -> Script:
    """Return a script with up to MOST_OPERATORS operators, which some of the faults of clients affect.

    Args:
        script: the script.
        is_new: whether the emulated release has the APIs of Kafka 4.2.
    """
    dice = Dice("operators", script.seed)
    kinds = [*OPERATORS, *(NEW_OPERATORS if is_new else ())]
    if any(fault.kind == "stale" for fault in script.faults):
        kinds.remove(ELECTOR)
    return _with(script, dice, dice.shuffled(kinds)[: dice.whole(1, MOST_OPERATORS)], is_new=is_new)


def logged_in(script: Script) -> Script:
    """Return a script whose clients log in with SASL, and of which some have operators of tokens and credentials."""
    dice = Dice("operators that log in", script.seed)
    members = tuple(
        replace(member, instance=AUTHENTICATED) if member.kind == TOKENS else member for member in script.members
    )
    script = replace(script, members=members)
    return _with(script, dice, list(LOGIN_OPERATORS)) if dice.chance(IN_BYTES) else script


def _with(script: Script, dice: Dice, kinds: list[str], *, is_new: bool = False) -> Script:
    first = max((member.number for member in script.members), default=-1) + 1
    operators = tuple(
        MemberScript(
            number=number,
            kind=kind,
            group=f"o{number}",
            topics=tuple(sorted(script.topics)) if kind == ELECTOR else (),
            instance=AUTHENTICATED if kind == TOKENS and script.protocol else None,
            starts=round(dice.between(0.0, 3.0), 3),
            session=SHARE_SESSION,
            commit=dice.pick([0.1, 0.3, 1.0]),
            delay=dice.pick([0.001, 0.005, 0.05]),
            kip890=is_new,
        )
        for number, kind in enumerate(kinds, first)
    )
    share = len(operators) / (len(script.members) + len(operators))
    faults = tuple(
        replace(fault, target=dice.pick(operators).number)
        if fault.kind in MEMBER_FAULTS and dice.chance(share)
        else fault
        for fault in script.faults
    )
    settings = {
        **script.settings,
        "delegation.token.secret.key": "secret",
        "delegation.token.expiry.time.ms": dice.pick([2_000, 5_000]),
        "delegation.token.max.lifetime.ms": 20_000,
        "delegation.token.expiry.check.interval.ms": SWEEP_MS,
        "group.share.session.timeout.ms": int(SHARE_SESSION * 1_000),
        "log.dirs": ",".join(DIRECTORIES),
        "mockbroker.client.telemetry.enable": True,
        "mockbroker.replica.catch.up.ms": dice.pick([0, 500, 3_000]),
    }
    return replace(script, members=(*script.members, *operators), faults=faults, settings=settings)
