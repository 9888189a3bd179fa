"""Runs a client against each case of the catalogue, and judges how it ended.

A run has three parts: the client works until the cluster has misbehaved for the first time; the cluster goes on to
misbehave for ``Limits.bad`` seconds; then it behaves, and the client has ``Limits.recovery`` seconds to achieve again
what it achieves with a cluster that behaves all the time.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mockbroker.lab.torture.broker import HostileBroker, hostile
from mockbroker.lab.torture.case import CONNECT, EVERY, Case
from mockbroker.lab.torture.process import ClientProcess, Usage

SAMPLED = 0.1  # seconds between samples of the client
FED = 0.3  # seconds between records
QUIET = 3.0  # seconds without a new API after which a client is known
MEGABYTE = 1 << 20


class Verdict(StrEnum):
    """How a client ended.

    Members:
        SURVIVED: it achieved something again, or finished its work.
        REFUSED: it ended with an error of its own.
        STUCK: it ran on and achieved nothing again.
        CRASHED: it was ended by a signal or by an error of its runtime.
        GREW: it used too much memory, and was ended.
        SKIPPED: it did not take the step of the case, or the case had no effect on it.
    """

    SURVIVED = "survived"
    REFUSED = "refused"
    STUCK = "stuck"
    CRASHED = "crashed"
    GREW = "grew"
    SKIPPED = "skipped"


BAD = frozenset({Verdict.STUCK, Verdict.CRASHED, Verdict.GREW})


class UnhealthyClientError(Exception):
    """The error for a client that achieves nothing with a cluster that behaves."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds of the verdicts.

    Attributes:
        start: seconds until the client must have achieved something with a cluster that behaves, and until a case must
            have had an effect.
        bad: seconds for which the cluster misbehaves.
        recovery: seconds after which a client that has not achieved anything again is stuck.
        memory: bytes of resident memory above that with a cluster that behaves, from which a client has grown too much.
    """

    start: float = 20.0
    bad: float = 5.0
    recovery: float = 30.0
    memory: int = 512 * MEGABYTE


@dataclass(frozen=True, slots=True)
class Client:
    """A client under test.

    Attributes:
        command: program and arguments.
        topic: topic that gets records.
        group: group id in the environment variable MOCKBROKER_GROUP.
        config: further broker settings by Kafka's names.
    """

    command: Sequence[str]
    topic: str = "torture"
    group: str = "torture"
    config: Mapping[str, Any] = field(default_factory=dict)

    def started(self, broker: HostileBroker) -> ClientProcess:
        environment = {
            "MOCKBROKER_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "MOCKBROKER_TOPIC": self.topic,
            "MOCKBROKER_GROUP": self.group,
        }
        return ClientProcess(self.command, environment)


@dataclass(frozen=True, slots=True)
class Health:
    """What a client does with a cluster that behaves.

    Attributes:
        apis: APIs of its requests.
        goals: APIs in which it achieves something; empty if it ends by itself.
        memory: largest resident memory in bytes.
        seconds: seconds until it had achieved something.
    """

    apis: frozenset[str]
    goals: frozenset[str]
    memory: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a case.

    Attributes:
        case: the case.
        verdict: how the client ended.
        seed: seed of the random numbers.
        seconds: duration of the run in seconds.
        recovered: seconds from the end of the misbehaviour until the client achieved something; None if it did not.
        applied: number of times that the cluster misbehaved.
        usage: largest use of resources.
        exit_code: exit code of the client; None if it did not end by itself.
        output: its last output.
        response: fields of the last response that the case changed; "" if it is not known.
        reproduce: command line that runs the case again.
    """

    case: Case
    verdict: Verdict
    seed: int
    seconds: float
    recovered: float | None
    applied: int
    usage: Usage
    exit_code: int | None
    output: str
    response: str
    reproduce: str

    @property
    def survived(self) -> bool:
        """Whether the verdict is neither stuck, crashed nor grew."""
        return self.verdict not in BAD

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {
            "case": self.case.name,
            "step": self.case.step,
            "description": f"The broker {self.case.description}.",
            "verdict": self.verdict.value,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "recovered_seconds": None if self.recovered is None else round(self.recovered, 1),
            "applied": self.applied,
            "memory_bytes": self.usage.memory,
            "threads": self.usage.threads,
            "sockets": self.usage.sockets,
            "cpu_seconds": round(self.usage.cpu, 1),
            "exit_code": self.exit_code,
            "output": self.output,
            "response": self.response,
            "published": self.case.published,
            "reproduce": self.reproduce,
        }


def examine(client: Client, limits: Limits) -> Health:
    """Run a client against a cluster that behaves; return what it does.

    Raises:
        UnhealthyClientError: The client failed, or achieved nothing.
    """
    with hostile(None, 0, client.topic, client.config) as broker:
        began = time.monotonic()
        process = client.started(broker)
        apis: set[str] = set()
        goals: set[str] = set()
        reached = 0.0
        news = began
        try:
            while (now := time.monotonic()) < began + limits.start or (goals and now < news + QUIET):
                _pause(broker, process, now - began)
                process.sample()
                new, done = broker.seen()
                if not (new <= apis and done <= goals):
                    news = now
                    reached = now - began
                apis |= new
                goals |= done
                if process.exit_code is not None or (goals and now > news + QUIET):
                    break
            if process.exit_code == 0:
                return Health(frozenset(apis), frozenset(), process.usage.memory, time.monotonic() - began)
            if process.exit_code is not None:
                raise UnhealthyClientError(
                    f"the client ends with code {process.exit_code} against a broker that behaves: {process.output}"
                )
            if not goals:
                raise UnhealthyClientError(
                    f"the client reads, writes and commits nothing in topic {client.topic} within {limits.start:g} s: "
                    "use the topic in MOCKBROKER_TOPIC, or set --topic and --start"
                )
        finally:
            process.end()
    return Health(frozenset(apis), frozenset(goals), process.usage.memory, reached)


def applies(case: Case, health: Health) -> bool:
    """Return whether a client takes the step of a case."""
    return case.step in (CONNECT, EVERY) or case.step in health.apis


def run(case: Case, client: Client, health: Health, limits: Limits, seed: int = 0) -> Result:
    """Run a client against a case, and judge it."""
    with hostile(case, seed, client.topic, client.config) as broker:
        return _Run(case, client, health, limits, seed, broker).result()


class _Run:
    """A run of a client against a case."""

    def __init__(
        self, case: Case, client: Client, health: Health, limits: Limits, seed: int, broker: HostileBroker
    ) -> None:
        self._case = case
        self._client = client
        self._health = health
        self._limits = limits
        self._seed = seed
        self._broker = broker
        self._began = time.monotonic()
        self._behaves_since: float | None = None
        self._recovered: float | None = None
        self._missing = set(health.goals)  # of the goals since the cluster behaves
        self._process = client.started(broker)

    def result(self) -> Result:
        try:
            verdict = self._watch()
            code = self._process.exit_code
        finally:
            self._process.end()
        command = shlex.join(self._client.command)
        return Result(
            case=self._case,
            verdict=verdict,
            seed=self._seed,
            seconds=time.monotonic() - self._began,
            recovered=self._recovered,
            applied=self._broker.applied,
            usage=self._process.usage,
            exit_code=code,
            output=self._process.output,
            response=self._broker.explanation(),
            reproduce=f"mockbroker torture --case {self._case.name} --seed {self._seed} -- {command}",
        )

    def _watch(self) -> Verdict:
        """Watch the client until a verdict is possible, and let the cluster behave when it is time."""
        most_memory = self._health.memory + self._limits.memory
        misbehaved: float | None = None
        while True:
            now = time.monotonic()
            _pause(self._broker, self._process, now - self._began)
            if self._process.sample() > most_memory:
                return Verdict.GREW
            if (verdict := self._ended()) is not None:
                return verdict
            if misbehaved is None:
                if self._broker.applied:
                    misbehaved = now
                elif now > self._began + self._health.seconds + self._limits.start:
                    return Verdict.SKIPPED
            elif self._behaves_since is None:
                if now > misbehaved + self._limits.bad:
                    self._broker.behave()
                    self._broker.skip_seen()
                    self._behaves_since = time.monotonic()
            elif self._has_recovered():
                self._recovered = time.monotonic() - self._behaves_since
                return Verdict.SURVIVED
            elif now > self._behaves_since + self._limits.recovery:
                return Verdict.STUCK

    def _ended(self) -> Verdict | None:
        code = self._process.exit_code
        if code is None:
            return None
        if self._process.has_crashed:
            return Verdict.CRASHED
        return Verdict.REFUSED if code else Verdict.SURVIVED

    def _has_recovered(self) -> bool:
        self._missing -= self._broker.seen()[1]
        return bool(self._health.goals) and not self._missing


def _pause(broker: HostileBroker, process: ClientProcess, elapsed: float) -> None:
    """Wait until the next sample, and append records now and then. ``elapsed``: seconds since the start of the run."""
    process.wait(SAMPLED)
    if int(elapsed / FED) != int((elapsed + SAMPLED) / FED):
        broker.feed()
