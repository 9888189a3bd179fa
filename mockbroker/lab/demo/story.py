"""The script of the demo: it starts brokers and three clients, stops one client, kills another, and reads the
offsets.
"""

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

STEP_TIMEOUT = 60.0  # maximum duration of a step, seconds
BATCH = 600  # records produced at a time
CONFIG = {"group.initial.rebalance.delay.ms": 300, "group.min.session.timeout.ms": 1000}


class StepFailedError(Exception):
    """The error for a step of the demo that failed or took too long."""


@contextmanager
def in_time(what: str) -> Iterator[None]:
    """Limit the duration of a ``with`` block to STEP_TIMEOUT seconds.

    ``what``: description of the step, for the error.

    Raises: StepFailedError if the block took longer.
    """
    with trio.move_on_after(STEP_TIMEOUT) as scope:
        yield
    if scope.cancelled_caught:
        raise StepFailedError(f"the step {what!r} did not end within {STEP_TIMEOUT:g} s")


async def _run_program(command: list[str]) -> Any:
    """Run a program until it ends, for at most STEP_TIMEOUT seconds. Return the JSON value that it prints.

    ``command``: the program and its arguments.

    Raises: StepFailedError if the program fails or takes too long.
    """
    with in_time(" ".join(command[2:4])):
        done = await trio.run_process(command, capture_stdout=True, check=False)
        if done.returncode:
            raise StepFailedError(f"{' '.join(command[2:4])} failed with exit code {done.returncode}")
        return json.loads(done.stdout)


class _Client:
    """A consumer process.

    Attributes:
        kind: kind of client.
        process: the process.
        may_end: whether the process may end, because the script stopped or killed it.
    """

    def __init__(self, kind: str, process: trio.Process) -> None:
        self.kind = kind
        self.process = process
        self.may_end = False

    def kill(self) -> None:
        """Kill the process, which therefore sends no LeaveGroup."""
        self.may_end = True
        self.process.kill()

    async def stop(self) -> None:
        """Request the process to leave the group, and wait until it has ended."""
        self.may_end = True
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        with in_time(f"waiting for {self.kind} to leave"):
            await self.process.wait()


class _Stage:
    """The environment of a running demo: the cluster and the client processes.

    The events of the cluster and of the processes are added to the timeline and to the observations (``Story``).

    Args:
        cluster: the cluster of the demo.
        timeline: the timeline that prints the events and actions.
        nursery: the nursery in which the client processes run.

    Attributes:
        story: the observations so far.
        clients: kind of client -> consumer process.
    """

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

    def show_action(self, name: str, client: str = "", detail: str = "") -> None:
        """Show an action of the demo's script on the timeline.

        Args:
            name: name of the action: start, produce, stop or kill.
            client: kind of the client; "" for an action on the cluster.
            detail: description; "" for the default text.
        """
        self.timeline.action(Action(self.now_ms(), name, client, detail))

    async def wait_until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until ``holds()``, which is called after each event, returns True.

        Args:
            what: description of the step, for the error.
            holds: function that returns whether the wait is over.

        Raises: StepFailedError if it takes too long or a client fails.
        """
        with in_time(what):
            while not holds():
                if self._broken:
                    raise StepFailedError(f"the step {what!r} failed: {self._broken}")
                self._changed = trio.Event()
                await self._changed.wait()

    async def produce(self, count: int) -> None:
        """Produce the next ``count`` records. Raises: StepFailedError if a program fails or takes too long."""
        first = self.story.produced
        command = [*_program("produce", self.cluster), str(first), str(count)]
        outcome = await _run_program(command)
        if outcome["failures"]:
            failures = outcome["failures"]
            raise StepFailedError(f"{len(failures)} records were not delivered, the first because of: {failures[0]}")
        self.story.produced += count
        self.show_action("produce", "producer", f"writes records {first} to {first + count - 1}")

    async def start(self, kind: str) -> None:
        """Start a consumer, and wait until all consumers that were started are in one generation.

        ``kind``: kind of the client.

        Raises: StepFailedError if a program fails or takes too long.
        """
        self.show_action("start", kind, "starts")
        run = partial(trio.run_process, [*_program("consume", self.cluster), kind], check=False)
        process = await self._nursery.start(partial(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        self.clients[kind] = _Client(kind, process)
        self._nursery.start_soon(self._listen, self.clients[kind])
        await self.wait_until(f"waiting for {kind} to own partitions", lambda: self.owners() == set(self.clients))

    def owners(self) -> set[str]:
        """Return the kinds of the clients that have partitions in the latest generation with an assignment."""
        assigned = assignments(self.story.events)
        return set(assigned[max(assigned)]) if assigned else set()

    def ends(self) -> dict[int, int]:
        """Return the log end offset of each partition, computed from the number of produced records."""
        return {index: len(range(index, self.story.produced, PARTITIONS)) for index in range(PARTITIONS)}

    def all_committed(self) -> bool:
        """Return whether the committed offset of every partition is the log end offset."""
        committed: dict[int, int] = {}
        for event in self.story.events:
            if event.event == EventKind.COMMIT:
                committed |= event.offsets.get(TOPIC, {})
        return committed == self.ends()

    def all_read(self) -> bool:
        """Return whether every produced record has been read."""
        seen = {number for numbers in self.story.read.values() for number in numbers}
        return len(seen) == self.story.produced

    def _happened(self, event: Event) -> None:
        self.story.events.append(event)
        self.timeline.event(event)
        self._changed.set()

    async def _listen(self, client: _Client) -> None:
        """Add the records that a client prints to the observations (``Story``), until the client's process ends.

        If the process ends although the script has not stopped or killed it, the step in progress fails.
        """
        assert client.process.stdout is not None
        rest = b""
        async for chunk in client.process.stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                rows = json.loads(line)["records"]
                self.story.read[client.kind] += [int(value) for _, _, value in rows]
            self._changed.set()
        if not client.may_end:
            self._broken = f"{client.kind} ended unexpectedly with exit code {await client.process.wait()}"
            self._changed.set()


def _program(verb: str, cluster: Cluster) -> list[str]:
    return [sys.executable, "-m", "mockbroker.lab.demo.client", verb, cluster.bootstrap_servers]


async def play(timeline: Timeline) -> Story:
    """Run the demo, and return the observations. If the demo fails, ``failure`` contains the reason.

    ``timeline``: output to which the events, actions and checks are written.
    """
    async with (
        open_cluster(brokers=3, topics={TOPIC: PARTITIONS}, config=CONFIG) as cluster,
        trio.open_nursery() as nursery,
    ):
        stage = _Stage(cluster, timeline, nursery)
        stage.show_action(
            "start", "", f"3 brokers at {cluster.bootstrap_servers}, topic {TOPIC} with {PARTITIONS} partitions"
        )
        try:
            await _act(stage)
        except StepFailedError as error:
            stage.story.failure = str(error)
        nursery.cancel_scope.cancel()  # kills the processes that still run
    return stage.story


async def _act(stage: _Stage) -> None:
    story = stage.story
    await stage.produce(BATCH)
    for kind in KINDS:
        await stage.start(kind)
    await stage.produce(BATCH)
    await stage.wait_until("waiting for all records to be read", stage.all_read)
    await stage.wait_until("waiting for all offsets to be committed", stage.all_committed)

    stopped, survivor, killed = (stage.clients[kind] for kind in KINDS)
    story.stopped, story.stopped_at = stopped.kind, stage.now_ms()
    stage.show_action("stop", stopped.kind)
    await stopped.stop()
    await stage.wait_until(
        "waiting for the other two to take over", lambda: stage.owners() == {survivor.kind, killed.kind}
    )

    story.killed, story.killed_at = killed.kind, stage.now_ms()
    stage.show_action("kill", killed.kind)
    killed.kill()
    await stage.wait_until("waiting for the last client to take over", lambda: stage.owners() == {survivor.kind})

    await stage.produce(BATCH)
    await stage.wait_until("waiting for all records to be read", stage.all_read)
    await stage.wait_until("waiting for all offsets to be committed", stage.all_committed)
    stage.show_action("stop", survivor.kind)
    await survivor.stop()

    response = await _run_program(_program("committed", stage.cluster))
    story.committed = {int(index): offset for index, offset in response["committed"].items()}
    story.ends = stage.ends()
    stage.show_action("start", "reader", f"reads the committed offsets back: {sum(story.ends.values())} records in all")
