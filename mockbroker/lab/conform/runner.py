"""Plays many conversations, a few at a time, each against a broker of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import trio

from kwire import APIS, ErrorCode, WireError
from mockbroker.api.cluster import open_cluster
from mockbroker.api.plan import MANUAL
from mockbroker.base.release import KAFKA_4_2, RELEASES
from mockbroker.base.settings import Settings, SettingsError
from mockbroker.lab.conform.asker import open_asker
from mockbroker.lab.conform.conversation import Conversation, ConversationError, load
from mockbroker.lab.conform.foreign import clear, other_settings, prepare
from mockbroker.lab.conform.pace import OwnTime, WorldTime
from mockbroker.lab.conform.player import Difference, Player

SASL = "SASL_PLAINTEXT"
RECORDED_WITH: dict[str, object] = {"log.message.timestamp.type": "CreateTime", "num.partitions": 3}
RECORDED_NODE = 1  # the broker id of every recording
TIMES = 5  # that a conversation is played, if it differs while the machine is busy
BUSY = 0.05  # seconds by which the player, or an answer, is late then
LOOKS_AFTER = 0.1  # seconds; Kafka 4 shows a group as it was last written to disk, which may be a moment ago


@dataclass(frozen=True, slots=True)
class Outcome:
    """``verdict``: ok, differs, waiting (for a broker with other settings) or failed (could not be played).

    ``is_hurried``: it differs, and the player was late, for which timers do not wait: no judgement yet.
    """

    name: str
    verdict: str
    detail: str = ""
    is_hurried: bool = field(default=False, compare=False)

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "verdict": self.verdict, "detail": self.detail}


async def run(
    files: Sequence[Path],
    address: tuple[str, int] | None,
    report: Callable[[Outcome], None],
    *,
    at_once: int,
    sasl_port: int | None = None,
) -> None:
    """Play all; ``report`` is called with each outcome, in the order of ``files``.

    Those that differ while the player is late are played again when the others are done, each alone.
    """
    limit = trio.CapacityLimiter(at_once)
    outcomes: dict[int, Outcome] = {}
    told = 0

    again: list[tuple[int, Path]] = []

    async def one(index: int, file: Path) -> None:
        async with limit:
            outcome = await play_file(file, address, sasl_port, times=1)
        if outcome.is_hurried:
            again.append((index, file))
        else:
            keep(index, outcome)

    def keep(index: int, outcome: Outcome) -> None:
        nonlocal told
        outcomes[index] = outcome
        while told in outcomes:
            report(outcomes[told])
            told += 1

    async with trio.open_nursery() as nursery:
        for index, file in enumerate(files):
            nursery.start_soon(one, index, file)
    for index, file in again:
        keep(index, await play_file(file, address, sasl_port))


async def play_file(
    file: Path, address: tuple[str, int] | None = None, sasl_port: int | None = None, times: int = TIMES
) -> Outcome:
    """Play one conversation, against ``address`` or a fresh broker of our own.

    ``sasl_port``: where the broker at ``address`` has a listener for the users of the conversation; ``times``: how
    often at most, as long as it differs and the player is late.
    """
    outcome = await _play_once(file, address, sasl_port)
    for _ in range(times - 1):
        if not outcome.is_hurried:
            break
        outcome = await _play_once(file, address, sasl_port)
    return outcome


async def _play_once(file: Path, address: tuple[str, int] | None, sasl_port: int | None) -> Outcome:
    try:
        conversation = load(file)
    except (ConversationError, OSError) as error:
        return Outcome(str(file), "failed", str(error))
    try:
        if address is None:
            return judge(conversation, await _play_ours(conversation))
        return await _play_against(conversation, address, sasl_port)
    except (OSError, WireError, SettingsError) as error:
        return Outcome(conversation.name, "failed", str(error))


def judge(conversation: Conversation, found: Difference | None) -> Outcome:
    """Return the outcome of a conversation by its first difference, or by none."""
    if found is None:
        return Outcome(conversation.name, "ok")
    is_hurried = found.behind >= BUSY
    late = f" (on a busy machine: {found.behind:.2f} s late)" if is_hurried else ""
    return Outcome(conversation.name, "differs", f"{found}{late}", is_hurried)


def _release(conversation: Conversation) -> str:
    """The release to be like: version 3.9.1 -> ``3.9``; the newest if it is none that we know."""
    release = ".".join(conversation.version.split(".")[:2])
    return release if release in RELEASES else KAFKA_4_2.name


async def _play_against(conversation: Conversation, address: tuple[str, int], sasl_port: int | None) -> Outcome:
    if conversation.users and sasl_port is None:
        return Outcome(conversation.name, "waiting", "for a broker with a SASL listener for its users")
    requests = [step for step in conversation.steps if step.event == "request"]
    if unknown := sorted({step.api for step in requests if step.api_key not in APIS}):
        return Outcome(conversation.name, "waiting", f"for {', '.join(unknown)} in kwire")
    async with open_asker(*address) as asker:
        if other := await other_settings(asker, conversation):
            return Outcome(conversation.name, "waiting", f"for a broker with {other}")
        await prepare(asker, conversation)
    player = Player(conversation, *address, looks_after=LOOKS_AFTER, sasl_port=sasl_port, pace=WorldTime())
    found = await _watched(player)
    async with open_asker(*address) as asker:
        await clear(asker, conversation)
    return judge(conversation, found)


async def _watched(player: Player) -> Difference | None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(player.pace.watch)
        found = await player.play()
        nursery.cancel_scope.cancel()
    return None if found is None else replace(found, behind=player.pace.behind)


async def _play_ours(conversation: Conversation) -> Difference | None:
    known, release = Settings().by_name(), _release(conversation)
    config = RECORDED_WITH | {name: value for name, value in conversation.config.items() if name in known}
    listeners = ("PLAINTEXT", SASL) if conversation.users else ("PLAINTEXT",)
    if _begins_without_transactions(conversation):
        config["mockbroker.transaction.log.on.demand"] = True
    async with open_cluster(
        topics=conversation.topics,
        config=config,
        as_version=release,
        first_node=RECORDED_NODE,
        listeners=listeners,
        users=conversation.users,
        clock=MANUAL,
    ) as cluster:
        (node,) = cluster.nodes
        pace, sasl_port = OwnTime(cluster.clock), node.port_of(SASL)
        return await _watched(Player(conversation, node.host, node.port, sasl_port=sasl_port, exactly=True, pace=pace))


def _begins_without_transactions(conversation: Conversation) -> bool:
    """True if the log of transactions was not there yet when the conversation was recorded."""
    missing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return any(
        step.api == "FindCoordinator" and step.fields.get("error_code") == missing for step in conversation.steps
    )
