"""Conversations of Kafka played concurrently in one run, the verdict of the run for each, and repeated runs."""

from __future__ import annotations

import gzip
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio
from golden import ROOT

from mockbroker.api.cluster import open_cluster
from mockbroker.lab.conform import player, runner
from mockbroker.lab.conform.conversation import Conversation, Step
from mockbroker.lab.conform.player import Difference
from mockbroker.lab.conform.runner import Outcome, judge, play_file, run

CONVERSATIONS = ROOT / "fixtures" / "conversations"
FILES = {path.name.removesuffix(".json.gz"): path for path in sorted((CONVERSATIONS / "4.2.0").glob("*.json.gz"))}
OF_OLD = {  # conversations that use versions which 4.2 does not support
    f"3.9.1/{path.name.removesuffix('.json.gz')}": path
    for path in sorted((CONVERSATIONS / "3.9.1").glob("*.json.gz"))
    if path.name.startswith(("old_", "api_versions", "fetch_"))
}
FILES |= OF_OLD
AT_ONCE = 24  # most conversations spend their time waiting


PLAYED = {
    f"{path.parent.name}/{path.name.removesuffix('.json.gz')}": path for path in CONVERSATIONS.glob("*/*.json.gz")
}


USUAL = {
    name for name in PLAYED if name.startswith("4.2.0/") or name in OF_OLD or f"4.2.0/{Path(name).name}" not in PLAYED
}


TIMED = "sasl_again"  # sessions expire in real time, so the broker may be late too, which the player cannot notice


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> dict[str, Outcome]:
    """Return the outcomes of the conversations that are tested in this run, by release and scenario."""
    tested = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    names = {spec.params["name"] for spec in tested if spec and "name" in spec.params}
    outcomes = played(sorted(names & PLAYED.keys()), AT_ONCE)
    late = [name for name, outcome in outcomes.items() if outcome.verdict != "ok" and name.endswith(TIMED)]
    return outcomes | played(late, 1)


def played(names: list[str], at_once: int) -> dict[str, Outcome]:
    outcomes: list[Outcome] = []
    trio.run(partial(run, [PLAYED[name] for name in names], None, outcomes.append, at_once=at_once))
    return dict(zip(names, outcomes, strict=True))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in USUAL else pytest.mark.long) for name in sorted(PLAYED)]
)
def test_conversation(name: str, outcomes: dict[str, Outcome]) -> None:
    assert (outcomes[name].verdict, outcomes[name].detail) == ("ok", "")


DIFFERS = Outcome("x", "differs", "x")
HURRIED = Outcome("x", "differs", "x", is_hurried=True)
OK = Outcome("x", "ok")
AGAIN = [  # outcomes of one conversation in successive runs, how often it is played, the outcome that is reported
    ([OK], 1, OK),
    ([DIFFERS, OK], 1, DIFFERS),
    ([HURRIED, OK], 2, OK),
    ([HURRIED, HURRIED, OK], 3, OK),
    ([HURRIED, DIFFERS, OK], 2, DIFFERS),
    ([HURRIED] * 6, 6, HURRIED),
]


@pytest.mark.parametrize(("outcomes", "times", "last"), AGAIN)
async def test_conversation_that_differs_is_played_again_alone(
    outcomes: list[Outcome], times: int, last: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[str] = []

    async def play(file: Path, *_: object) -> Outcome:
        turns.append(file.name)
        await trio.lowlevel.checkpoint()
        return outcomes[turns.count("x") - 1] if file.name == "x" else Outcome(file.name, "ok")

    monkeypatch.setattr(runner, "_play_once", play)
    reported: list[Outcome] = []
    await run([Path("a"), Path("x"), Path("b")], None, reported.append, at_once=2)
    assert [outcome.name for outcome in reported] == ["a", "x", "b"]
    assert reported[1] == last
    assert turns.count("x") == times
    assert set(turns[3:]) <= {"x"}, "when the others are done"


async def test_how_late_the_player_was_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    result = judge(conversation("sync_again"), replace(at(5), lateness=runner.BUSY))
    assert (result.verdict, result.is_hurried) == ("differs", True)
    assert result.detail.endswith("got 2 (on a busy machine: 0.05 s late)")
    assert "is_hurried" not in result.to_json()
    assert not judge(conversation("sync_again"), at(5)).is_hurried


def conversation(scenario: str, version: str = "4.2.0") -> Conversation:
    release = f"Apache Kafka {version}"
    return Conversation(scenario=scenario, release=release, doc="", config={}, topics={}, names={}, steps=[])


def at(n: int) -> Difference:
    return Difference(Step(n=n, event="response", api="Fetch", api_version=11, conn="A"), "x: recorded 1, got 2")


VERDICTS = [  # step of the difference (0: none), verdict, part of the detail
    (0, "ok", ""),
    (5, "differs", "step 5 Fetch v11 on A: x: recorded 1, got 2"),
]


@pytest.mark.parametrize(("step", "verdict", "detail"), VERDICTS)
def test_verdict(step: int, verdict: str, detail: str) -> None:
    result = judge(conversation("sync_again"), at(step) if step else None)
    assert result.verdict == verdict
    assert detail in result.detail


async def test_file_that_is_no_conversation(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    assert (await play_file(tmp_path / "x.json")).verdict == "failed"


async def test_group_without_members() -> None:
    assert (await play_file(FILES["sync_again"], ("127.0.0.1", 1))).verdict == "failed"


async def test_broker_that_becomes_unreachable_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> None:
        raise OSError("connection refused")

    monkeypatch.setattr(player.trio, "open_tcp_stream", refuse)
    outcome = await play_file(FILES["sync_again"])
    assert (outcome.verdict, outcome.detail) == ("failed", "connection refused")


async def test_conversation_against_an_external_broker(tmp_path: Path) -> None:
    """The runner creates topics and clears groups, so a conversation can be played twice; conversations that need other
    settings or unknown APIs are not played."""
    later = tmp_path / "later.json"
    recorded = gzip.decompress(FILES["kip848_errors"].read_bytes())
    later.write_bytes(recorded.replace(b'"api_key": 68', b'"api_key": 9999'))
    settings = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100, "num.partitions": 3}
    settings |= {"log.message.timestamp.type": "CreateTime"}  # set, so that DescribeConfigs reports it
    settings |= {"group.consumer.session.timeout.ms": 6_000, "group.consumer.heartbeat.interval.ms": 500}
    async with open_cluster(config=settings, first_node=1) as cluster:
        address = cluster.nodes[0].host, cluster.nodes[0].port
        for scenario in ("two_members_join", "two_members_join", "offsets_by_topic_id", "cluster_and_topics"):
            assert await play_file(FILES[scenario], address) == Outcome(f"{scenario} (Apache Kafka 4.2.0)", "ok")
        other = await play_file(FILES["delay_two_joiners"], address)
        unknown = await play_file(later, address)
        older = await play_file(CONVERSATIONS / "3.9.1" / "commit_to_no_group.json.gz", address)
        unsafe = await play_file(FILES["sasl_plain"], address)
    assert (other.verdict, other.detail) == ("waiting", "for a broker with group.initial.rebalance.delay.ms=1000")
    assert (unknown.verdict, unknown.detail) == ("waiting", "for kwire to support ConsumerGroupHeartbeat")
    assert older.verdict == "differs"
    assert (unsafe.verdict, unsafe.detail) == ("waiting", "for a broker with a SASL listener for its users")
