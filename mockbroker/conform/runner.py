"""Plays many conversations, a few at a time, each against a broker of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import trio

from mockbroker.cluster_api import open_cluster
from mockbroker.conform.conversation import Conversation, ConversationError, load
from mockbroker.conform.player import Difference, Player, needs
from mockbroker.handlers import HANDLERS
from mockbroker.release import KAFKA_4_2, RELEASES
from mockbroker.settings import Settings, SettingsError

RECORDED_NODE = 1  # the broker id of every recording


@dataclass(frozen=True, slots=True)
class Outcome:
    """``verdict``: ok, differs, waiting (for an API that is not served) or failed (could not be played)."""

    name: str
    verdict: str
    detail: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


async def run(
    files: Sequence[Path], address: tuple[str, int] | None, tell: Callable[[Outcome], None], *, at_once: int
) -> None:
    """Play all; ``tell`` hears of each in the order of ``files``."""
    limit = trio.CapacityLimiter(at_once)
    outcomes: dict[int, Outcome] = {}
    told = 0

    async def one(index: int, file: Path) -> None:
        nonlocal told
        async with limit:
            outcomes[index] = await play_file(file, address)
        while told in outcomes:
            tell(outcomes[told])
            told += 1

    async with trio.open_nursery() as nursery:
        for index, file in enumerate(files):
            nursery.start_soon(one, index, file)


async def play_file(file: Path, address: tuple[str, int] | None = None) -> Outcome:
    """Play one conversation, against ``address`` or a fresh broker of our own."""
    try:
        conversation = load(file)
    except (ConversationError, OSError) as error:
        return Outcome(str(file), "failed", str(error))
    if missing := needs(conversation, HANDLERS):
        return Outcome(conversation.name, "waiting", f"for {', '.join(missing)}")
    try:
        found = await _play(conversation, address)
    except (OSError, SettingsError) as error:
        return Outcome(conversation.name, "failed", str(error))
    return Outcome(conversation.name, "differs", str(found)) if found else Outcome(conversation.name, "ok")


def _release(conversation: Conversation) -> str:
    """The release to be like: ``Apache Kafka 3.9.1`` -> ``3.9``; the newest if it is none that we know."""
    found = re.search(r"\d+\.\d+", conversation.release)
    return found[0] if found and found[0] in RELEASES else KAFKA_4_2.name


async def _play(conversation: Conversation, address: tuple[str, int] | None) -> Difference | None:
    if address is not None:
        return await Player(conversation, *address).play()
    known, release = Settings().by_name(), _release(conversation)
    config = {"num.partitions": 3} | {name: value for name, value in conversation.config.items() if name in known}
    async with open_cluster(
        topics=conversation.topics, config=config, as_version=release, first_node=RECORDED_NODE
    ) as cluster:
        return await Player(conversation, cluster.nodes[0].host, cluster.nodes[0].port).play()
