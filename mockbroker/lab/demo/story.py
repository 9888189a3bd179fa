"""The script of the demo: brokers, three kinds of client, one that stops, one that is killed, offsets read back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import trio

from mockbroker.api.cluster import Cluster, open_cluster
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.journal import Event
from mockbroker.lab.demo import KINDS, PARTITIONS, TOPIC
from mockbroker.lab.demo.checks import Story, assignments
from mockbroker.lab.demo.timeline import Action, Timeline

PATIENCE = 60.0  # seconds that any one step may take before the demo gives up on it
BATCH = 600  # records produced at a time
CONFIG = {"group.initial.rebalance.delay.ms": 300, "group.min.session.timeout.ms": 1000}


class StepFailedError(Exception):
    """A step of the story did not come about in time."""


@contextmanager
def in_time(what: str) -> Iterator[None]:
    """Raises: StepFailedError if the block takes longer than anything should."""
    with trio.move_on_after(PATIENCE) as scope:
        yield
    if scope.cancelled_caught:
        raise StepFailedError(f"not within {PATIENCE:g} s: {what}")


async def _ask(command: list[str]) -> Any:
    """What a program that ends by itself says on its last line. Raises: StepFailedError."""
    with in_time(" ".join(command[2:4])):
        done = await trio.run_process(command, capture_stdout=True, check=False)
        if done.returncode:
            raise StepFailedError(f"{' '.join(command[2:4])} ended with exit code {done.returncode}")
        return json.loads(done.stdout)


class _Client:
    """A consumer in a process of its own. ``may_end``: it was told to."""

    def __init__(self, kind: str, process: trio.Process) -> None:
        self.kind = kind
        self.process = process
        self.may_end = False

    def kill(self) -> None:
        """End it without a chance to say goodbye."""
        self.may_end = True
        self.process.kill()

    async def stop(self) -> None:
        """Ask it to leave politely, and wait until it is gone."""
        self.may_end = True
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        with in_time(f"{self.kind} leaves"):
            await self.process.wait()


class _Stage:
    """The cluster and its clients; what happens is told to the timeline and kept in the story."""

    def __init__(self, cluster: Cluster, timeline: Timeline, nursery: trio.Nursery) -> None:
        self.cluster = cluster
        self.timeline = timeline
        self.story = Story()
        self.clients: dict[str, _Client] = {}
        self._broken = ""
        self._nursery = nursery
        self._changed = trio.Event()
        cluster.journal.listeners.append(self._happened)

    def now_ms(self) -> int:
        return round((trio.current_time() - self.cluster.journal.begin) * 1000)

    def acted(self, name: str, client: str = "", detail: str = "") -> None:
        """Show what the script did."""
        self.timeline.action(Action(self.now_ms(), name, client, detail))

    async def wait_until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until ``holds()``; looked at whenever something happened. Raises: StepFailedError."""
        with in_time(what):
            while not holds():
                if self._broken:
                    raise StepFailedError(f"{what}: {self._broken}")
                self._changed = trio.Event()
                await self._changed.wait()

    async def produce(self, count: int) -> None:
        first = self.story.produced
        command = [*_program("produce", self.cluster), str(first), str(count)]
        outcome = await _ask(command)
        if outcome["failures"]:
            raise StepFailedError(f"{len(outcome['failures'])} records were not delivered: {outcome['failures'][0]}")
        self.story.produced += count
        self.acted("produce", "producer", f"writes records {first} to {first + count - 1}")

    async def start(self, kind: str) -> None:
        """Start a consumer, and wait until it shares a generation with those before it."""
        self.acted("start", kind, "starts")
        run = partial(trio.run_process, [*_program("consume", self.cluster), kind], check=False)
        process = await self._nursery.start(partial(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        self.clients[kind] = _Client(kind, process)
        self._nursery.start_soon(self._listen, self.clients[kind])
        await self.wait_until(f"{kind} owns partitions", lambda: self.owners() == set(self.clients))

    def owners(self) -> set[str]:
        """The clients that share the newest generation."""
        found = assignments(self.story.events)
        return set(found[max(found)]) if found else set()

    def ends(self) -> dict[int, int]:
        """Where the log of each partition ends: numbers are produced round the partitions."""
        return {index: len(range(index, self.story.produced, PARTITIONS)) for index in range(PARTITIONS)}

    def all_committed(self) -> bool:
        """True when the group has committed the end of every partition."""
        committed: dict[int, int] = {}
        for event in self.story.events:
            if event.event == EventKind.COMMIT:
                committed |= event.offsets.get(TOPIC, {})
        return committed == self.ends()

    def all_read(self) -> bool:
        seen = {number for numbers in self.story.read.values() for number in numbers}
        return len(seen) == self.story.produced

    def _happened(self, event: Event) -> None:
        self.story.events.append(event)
        self.timeline.event(event)
        self._changed.set()

    async def _listen(self, client: _Client) -> None:
        """Keep what a client says that it read."""
        assert client.process.stdout is not None
        rest = b""
        async for chunk in client.process.stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                rows = json.loads(line)["records"]
                self.story.read[client.kind] += [int(value) for _, _, value in rows]
            self._changed.set()
        if not client.may_end:
            self._broken = f"{client.kind} ended by itself, exit code {await client.process.wait()}"
            self._changed.set()


def _program(verb: str, cluster: Cluster) -> list[str]:
    return [sys.executable, "-m", "mockbroker.lab.demo.client", verb, cluster.bootstrap_servers]


async def play(timeline: Timeline) -> Story:
    """Play the whole story; ``Story.failure`` says if it did not come to its end. No process is left behind."""
    async with (
        open_cluster(brokers=3, topics={TOPIC: PARTITIONS}, config=CONFIG) as cluster,
        trio.open_nursery() as nursery,
    ):
        stage = _Stage(cluster, timeline, nursery)
        stage.acted(
            "start", "", f"3 brokers at {cluster.bootstrap_servers}, topic {TOPIC} with {PARTITIONS} partitions"
        )
        try:
            await _act(stage)
        except StepFailedError as error:
            stage.story.failure = str(error)
        nursery.cancel_scope.cancel()  # ends what still runs
    return stage.story


async def _act(stage: _Stage) -> None:
    story = stage.story
    await stage.produce(BATCH)
    for kind in KINDS:
        await stage.start(kind)
    await stage.produce(BATCH)
    await stage.wait_until("everything is read", stage.all_read)
    await stage.wait_until("everything is committed", stage.all_committed)

    stopped, survivor, killed = (stage.clients[kind] for kind in KINDS)
    story.stopped, story.stopped_at = stopped.kind, stage.now_ms()
    stage.acted("stop", stopped.kind)
    await stopped.stop()
    await stage.wait_until("the others take over", lambda: stage.owners() == {survivor.kind, killed.kind})

    story.killed, story.killed_at = killed.kind, stage.now_ms()
    stage.acted("kill", killed.kind)
    killed.kill()
    await stage.wait_until("the last one takes over", lambda: stage.owners() == {survivor.kind})

    await stage.produce(BATCH)
    await stage.wait_until("everything is read", stage.all_read)
    await stage.wait_until("everything is committed", stage.all_committed)
    stage.acted("stop", survivor.kind)
    await survivor.stop()

    found = await _ask(_program("committed", stage.cluster))
    story.committed = {int(index): offset for index, offset in found["committed"].items()}
    story.ends = stage.ends()
    stage.acted("start", "reader", f"reads the committed offsets back: {sum(story.ends.values())} records in all")
