"""The runner of many conversations, several at the same time.

Each conversation is played against its own mockbroker, or all against one external broker.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from pathlib import Path
from uuid import UUID

import trio

from kwire import APIS, ErrorCode, WireError
from kwire.lazy_dataclass import dataclass
from mockbroker.api.cluster import open_cluster
from mockbroker.api.plan import MANUAL
from mockbroker.base.release import KAFKA_4_2, RELEASES
from mockbroker.base.settings import OF_LISTENER, READ_ELSEWHERE, Settings, SettingsError
from mockbroker.lab.conform.asker import open_asker
from mockbroker.lab.conform.conversation import Conversation, ConversationError, load
from mockbroker.lab.conform.foreign import clear, other_settings, prepare
from mockbroker.lab.conform.pace import ManualTime, WallTime
from mockbroker.lab.conform.player import Difference, Player, background_tasks

SASL = "SASL_PLAINTEXT"
TOPIC_LABEL = "$topic:"
RECORDED_WITH: dict[str, object] = {"log.message.timestamp.type": "CreateTime", "num.partitions": 3}
RECORDED_NODE = 1  # the broker id in all recordings
MAX_RUNS = 5  # maximum number of runs of a conversation that differs while the machine is busy
BUSY = 0.05  # minimum lateness in seconds of a busy machine
DESCRIBE_DELAY = 0.1  # seconds; Kafka 4 describes a group as last written to disk, which lags behind its state


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one conversation.

    Attributes:
        name: scenario and recorded release, or the file name.
        verdict: ``ok``; ``differs``; ``waiting`` if this broker or kwire cannot play the conversation, for example
            because the broker has different settings; ``failed`` after an error.
        detail: the difference; what the conversation waits for, such as settings; or the error. "" for ``ok``.
        is_hurried: whether the player was so late that its delay may have caused the difference. Then the conversation
            is repeated.
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
    """Play conversations. A conversation that differs while the player is late is repeated alone at the end.

    Args:
        files: conversation files.
        address: host and port of an external broker; None starts a mockbroker for each conversation.
        report: callback for each outcome, in the order of ``files``.
        at_once: maximum number of conversations played at the same time.
        sasl_port: port of the external broker's SASL listener; None if it has no such listener.
    """
    limit = trio.CapacityLimiter(at_once)
    outcomes: dict[int, Outcome] = {}
    reported = 0
    again: list[tuple[int, Path]] = []

    async def one(index: int, file: Path) -> None:
        async with limit:
            outcome = await play_file(file, address, sasl_port, max_runs=1)
        if outcome.is_hurried:
            again.append((index, file))
        else:
            keep(index, outcome)

    def keep(index: int, outcome: Outcome) -> None:
        nonlocal reported
        outcomes[index] = outcome
        while reported in outcomes:
            report(outcomes[reported])
            reported += 1

    async with trio.open_nursery() as nursery:
        for index, file in enumerate(files):
            nursery.start_soon(one, index, file)
    for index, file in again:
        keep(index, await play_file(file, address, sasl_port))


async def play_file(
    file: Path, address: tuple[str, int] | None = None, sasl_port: int | None = None, max_runs: int = MAX_RUNS
) -> Outcome:
    """Play a conversation, and return the outcome of the last run.

    The conversation is repeated as long as a run differs from the recording and the player was too slow
    (``Outcome.is_hurried``), up to ``max_runs`` runs.

    Args:
        file: conversation file.
        address: host and port of an external broker; None starts a mockbroker.
        sasl_port: port of the external broker's SASL listener; None if it has no such listener.
        max_runs: maximum number of runs.
    """
    outcome = await _play_once(file, address, sasl_port)
    for _ in range(max_runs - 1):
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


def judge(conversation: Conversation, difference: Difference | None) -> Outcome:
    """Return the outcome of a conversation that was played.

    Args:
        conversation: the conversation.
        difference: the first difference from the recording; None if all steps agreed.
    """
    if difference is None:
        return Outcome(conversation.name, "ok")
    is_hurried = difference.lateness >= BUSY
    late = f" (on a busy machine: {difference.lateness:.2f} s late)" if is_hurried else ""
    return Outcome(conversation.name, "differs", f"{difference}{late}", is_hurried)


def _release(conversation: Conversation) -> str:
    """Return the Kafka release, such as ``3.9`` for version 3.9.1, that a mockbroker emulates for a conversation.

    If no release has the version of the conversation, return the newest release.
    """
    release = ".".join(conversation.version.split(".")[:2])
    return release if release in RELEASES else KAFKA_4_2.name


async def _play_against(conversation: Conversation, address: tuple[str, int], sasl_port: int | None) -> Outcome:
    if conversation.users and sasl_port is None:
        return Outcome(conversation.name, "waiting", "for a broker with a SASL listener for its users")
    requests = [step for step in conversation.steps if step.event == "request"]
    if unknown := sorted({step.api for step in requests if step.api_key not in APIS}):
        return Outcome(conversation.name, "waiting", f"for kwire to support {', '.join(unknown)}")
    if conversation.brokers > 1:
        return Outcome(conversation.name, "waiting", f"for a cluster of {conversation.brokers} brokers")
    async with open_asker(*address) as asker:
        if other := await other_settings(asker, conversation):
            return Outcome(conversation.name, "waiting", f"for a broker with {other}")
        await prepare(asker, conversation)
    player = Player(conversation, *address, describe_delay=DESCRIBE_DELAY, sasl_port=sasl_port, pace=WallTime())
    difference = await _play_watched(player)
    async with open_asker(*address) as asker:
        await clear(asker, conversation)
    return judge(conversation, difference)


async def _play_watched(player: Player) -> Difference | None:
    async with background_tasks() as nursery:
        nursery.start_soon(player.pace.watch)
        difference = await player.play()
    return None if difference is None else replace(difference, lateness=player.pace.lateness)


async def _play_ours(conversation: Conversation) -> Difference | None:
    known, release = set(Settings().by_name()), _release(conversation)
    known |= READ_ELSEWHERE
    config = RECORDED_WITH | {
        name: value for name, value in conversation.config.items() if name in known or name.startswith(OF_LISTENER)
    }
    if conversation.config.get("metric.reporters"):
        config["mockbroker.client.telemetry.enable"] = True
    listeners = ("PLAINTEXT", SASL) if conversation.users else ("PLAINTEXT",)
    if _starts_without_transaction_log(conversation):
        config["mockbroker.transaction.log.on.demand"] = True
    async with open_cluster(
        brokers=conversation.brokers,
        config=config,
        as_version=release,
        first_node=RECORDED_NODE,
        listeners=listeners,
        users=conversation.users,
        clock=MANUAL,
    ) as cluster:
        cluster._router.broker.cluster.coming_topic_ids = _topic_ids(conversation)
        for name, partitions in conversation.topics.items():
            cluster.create_topic(name, partitions)
        for down in conversation.down:
            cluster.stop_broker(down)
        node = cluster.nodes[0]
        pace, sasl_port = ManualTime(cluster.clock), node.port_of(SASL)
        return await _play_watched(
            Player(conversation, node.host, node.port, sasl_port=sasl_port, exactly=True, pace=pace)
        )


def _topic_ids(conversation: Conversation) -> dict[str, list[UUID]]:
    """Return the recorded ids of each topic of a conversation: topic name -> ids, in the order of creation.

    The order matters because the assignments of share groups depend on the topic ids.
    """
    ids: dict[str, list[UUID]] = {}
    for text, label in conversation.names.items():
        if label.startswith(TOPIC_LABEL):
            ids.setdefault(label.removeprefix(TOPIC_LABEL), []).append(UUID(bytes=urlsafe_b64decode(text + "==")))
    return ids


def _starts_without_transaction_log(conversation: Conversation) -> bool:
    """Return whether a conversation was recorded before ``__transaction_state`` existed.

    In such a conversation, a FindCoordinator is answered with COORDINATOR_NOT_AVAILABLE.
    """
    missing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return any(
        step.api == "FindCoordinator" and step.fields.get("error_code") == missing for step in conversation.steps
    )
