"""The runner of torture tests, which runs a client against cases and judges whether the client survives.

A run has three parts. First, the client works until the cluster misbehaves for the first time. Then the misbehaviour
continues for ``Limits.bad`` seconds. Finally the cluster is correct again: within ``Limits.recovery`` seconds, the
client must make the same progress as with a correct cluster.
"""

from __future__ import annotations

import shlex
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kwire.command import one_line
from kwire.process import SIGNALLED
from mockbroker.lab.torture.broker import HostileBroker, hostile
from mockbroker.lab.torture.case import CONNECT, EVERY, TLS, Case
from mockbroker.lab.torture.process import CRASHES, ClientProcess, Usage
from mockbroker.lab.torture.security import Security

SAMPLED = 0.1  # seconds between samples of the client
QUIET = 3.0  # the first run ends after this many seconds without a new API
MEGABYTE = 1 << 20
TOPIC = "torture"
BUSY = 0.7  # of a CPU that is used by a client which waits for nothing
CAUSES = (*CRASHES, "ssert")  # texts of lines that have the cause of a crash
QUOTED = 160  # characters of the output in the outcome of a case


class Verdict(StrEnum):
    """The verdict on a client in one case.

    Members:
        SURVIVED: the client made progress after the misbehaviour, or finished its work.
        REFUSED: the client exited with an error that it reported itself.
        STUCK: the client kept running without progress.
        CRASHED: the client was killed by a signal or by a fatal error of its runtime.
        GREW: the client used too much memory, and was killed.
        SKIPPED: the client never sent the requests that the case affects, the case had no effect, or the run was
            stopped.
    """

    SURVIVED = "survived"
    REFUSED = "refused"
    STUCK = "stuck"
    CRASHED = "crashed"
    GREW = "grew"
    SKIPPED = "skipped"


BAD = frozenset({Verdict.STUCK, Verdict.CRASHED, Verdict.GREW})


class UnhealthyClientError(Exception):
    """The error for a client that makes no progress even with a correct cluster."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds of the verdicts.

    Attributes:
        start: time limit in seconds for the first progress with a correct cluster. With a case, this time is added to
            ``Health.seconds``: it is the limit for the first misbehaviour.
        bad: seconds for which the cluster misbehaves.
        recovery: seconds without progress after which a client counts as stuck.
        memory: permitted growth of resident memory in bytes, compared with a correct cluster.
    """

    start: float = 20.0
    bad: float = 5.0
    recovery: float = 30.0
    memory: int = 512 * MEGABYTE

    @property
    def arguments(self) -> list[str]:
        """The options of ``mockbroker torture`` for the thresholds that are not the default."""
        usual = Limits()
        megabytes = -(-self.memory // MEGABYTE)
        values = (
            ("--bad", self.bad, usual.bad),
            ("--recovery", self.recovery, usual.recovery),
            ("--memory", megabytes, usual.memory // MEGABYTE),
            ("--start", self.start, usual.start),
        )
        return [text for name, value, default in values if value != default for text in (name, f"{value:g}")]


@dataclass(frozen=True, slots=True)
class Client:
    """A client under test.

    Attributes:
        command: program and arguments.
        topic: topic to which records are appended.
        group: group id in the environment variable MOCKBROKER_GROUP.
        config: further broker settings by Kafka's names.
        security: security settings of the broker's listener; the client finds them in its environment.
    """

    command: Sequence[str]
    topic: str = TOPIC
    group: str = "torture"
    config: Mapping[str, Any] = field(default_factory=dict)
    security: Security = Security()

    @property
    def arguments(self) -> list[str]:
        """The options of ``mockbroker torture`` that start the same broker."""
        topic = [] if self.topic == TOPIC else ["--topic", self.topic]
        return [*topic, *self.security.arguments]

    def started(self, broker: HostileBroker) -> ClientProcess:
        environment = {
            "MOCKBROKER_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "MOCKBROKER_TOPIC": self.topic,
            "MOCKBROKER_GROUP": self.group,
            **self.security.environment(broker.ca),
        }
        return ClientProcess(self.command, environment)


@dataclass(frozen=True, slots=True)
class Health:
    """The behaviour of a client with a correct cluster.

    Attributes:
        apis: APIs of its requests.
        goals: APIs whose responses prove progress; empty if the client exits by itself.
        memory: peak resident memory in bytes.
        seconds: seconds until the client had requested the last of ``apis`` and reached the last of ``goals``; duration
            of the run if the client exits by itself.
        has_tls: whether its connections use TLS.
    """

    apis: frozenset[str]
    goals: frozenset[str]
    memory: int
    seconds: float
    has_tls: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one case.

    Attributes:
        case: the case.
        verdict: verdict on the client.
        seed: seed of the random numbers.
        seconds: duration of the run in seconds.
        recovered: seconds from the end of the misbehaviour until the next progress; None without progress.
        applied: number of times that the cluster misbehaved.
        usage: peak resource usage.
        exit_code: exit code of the client; None if the client did not end by itself.
        output: last output of the client.
        response: fields of the last response that the case changed; "" if unknown.
        reproduce: command line that runs the case again.
        missing: APIs of GOALS that the client has not achieved since the end of the misbehaviour.
        memory: resident memory in bytes with a correct cluster.
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
    missing: tuple[str, ...] = ()
    memory: int = 0

    @property
    def outcome(self) -> str:
        """The behaviour of the client, as the end of a sentence that begins with "The client"."""
        match self.verdict:
            case Verdict.SURVIVED if self.exit_code == 0:
                return "ends with exit code 0"
            case Verdict.SURVIVED:
                return f"works again after {self.recovered or 0.0:.1f} s"
            case Verdict.REFUSED:
                return f"ends with exit code {self.exit_code}{_quoted(self.output)}"
            case Verdict.CRASHED:
                return f"is ended by {_signal(self.exit_code)}{_quoted(self.output, CAUSES)}"
            case Verdict.GREW:
                return (
                    f"uses {self.usage.memory // MEGABYTE} MB, "
                    f"{(self.usage.memory - self.memory) // MEGABYTE} MB more than with a correct broker"
                )
            case Verdict.STUCK:
                busy = self.usage.cpu > BUSY * self.seconds
                keeps = f"uses {self.usage.cpu:.0f} s of CPU in {self.seconds:.0f} s" if busy else "keeps running"
                return f"{keeps}, without a successful {' and '.join(self.missing) or 'end'}{_quoted(self.output)}"
            case _:
                return "never reaches the step"

    @property
    def survived(self) -> bool:
        """Whether the verdict is not STUCK, CRASHED or GREW."""
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
            "outcome": f"The client {self.outcome}.",
            "output": self.output,
            "response": self.response,
            "published": self.case.published,
            "reproduce": self.reproduce,
        }


def examine(client: Client, limits: Limits, stop: threading.Event | None = None) -> Health:
    """Run a client against a correct cluster. Return its behaviour.

    Args:
        client: the client under test.
        limits: thresholds of the verdicts.
        stop: event that ends the run early, with an incomplete result; None for no event.

    Raises:
        UnhealthyClientError: The client failed, or made no progress.
    """
    stop = stop or threading.Event()
    with hostile(None, 0, client.topic, client.config, client.security) as broker:
        began = time.monotonic()
        process = client.started(broker)
        apis: set[str] = set()
        goals: set[str] = set()
        reached = 0.0
        news = began
        try:
            while not stop.is_set() and (
                (now := time.monotonic()) < began + limits.start or (goals and now < news + QUIET)
            ):
                process.wait(SAMPLED)
                broker.keep_fed(now - began)
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
                seconds = time.monotonic() - began
                return Health(frozenset(apis), frozenset(), process.usage.memory, seconds, client.security.has_tls)
            if process.exit_code is not None:
                printed = f": {process.output}" if process.output.strip() else ", and printed nothing"
                raise UnhealthyClientError(
                    f"the client exited with code {process.exit_code}, although the broker is correct{printed}"
                )
            if not goals and not stop.is_set():
                raise UnhealthyClientError(
                    f"the client neither read, wrote nor committed in topic {client.topic} within {limits.start:g} s: "
                    "use the topic in MOCKBROKER_TOPIC, or set --topic and --start"
                )
        finally:
            process.end()
    return Health(frozenset(apis), frozenset(goals), process.usage.memory, reached, client.security.has_tls)


def applies(case: Case, health: Health) -> bool:
    """Return whether a case can affect a client.

    A case that changes responses of one API needs a client that sends requests of this API. A case that changes TLS
    handshakes needs a client that uses TLS. All other cases affect every client.

    Args:
        case: the case.
        health: behaviour of the client with a correct cluster.
    """
    if case.step == TLS:
        return health.has_tls
    return case.step in (CONNECT, EVERY) or case.step in health.apis


def run(
    case: Case, client: Client, health: Health, limits: Limits, seed: int = 0, stop: threading.Event | None = None
) -> Result:
    """Run a client against a case, and return the result with the verdict.

    Args:
        case: the case.
        client: the client under test.
        health: behaviour of the client with a correct cluster.
        limits: thresholds of the verdicts.
        seed: seed of the random numbers of the case.
        stop: event that ends the run early, with the verdict SKIPPED; None for no event.
    """
    with hostile(case, seed, client.topic, client.config, client.security) as broker:
        return _Run(case, client, health, limits, seed, broker, stop or threading.Event()).result()


class _Run:
    """A run of a client against a case.

    Args:
        case: the case, which says how the cluster misbehaves.
        client: the client under test.
        health: behaviour of the client with a correct cluster.
        limits: thresholds of the verdicts.
        seed: seed of the run, for the command that reproduces it.
        broker: the cluster that misbehaves.
        stop: event that is set to stop the run.
    """

    def __init__(
        self,
        case: Case,
        client: Client,
        health: Health,
        limits: Limits,
        seed: int,
        broker: HostileBroker,
        stop: threading.Event,
    ) -> None:
        self._stop = stop
        self._case = case
        self._client = client
        self._health = health
        self._limits = limits
        self._seed = seed
        self._broker = broker
        self._began = time.monotonic()
        self._behaves_since: float | None = None
        self._recovered: float | None = None
        self._missing = set(health.goals)  # goals not reached since the cluster is healthy again
        self._process = client.started(broker)

    def result(self) -> Result:
        try:
            verdict = self._watch()
            code = self._process.exit_code
        finally:
            self._process.end()
        case = ["--case", self._case.name, "--seed", str(self._seed)]
        options = [*case, *self._client.arguments, *self._limits.arguments]
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
            reproduce=shlex.join(["mockbroker", "torture", *options, "--", *self._client.command]),
            missing=tuple(sorted(self._missing)),
            memory=self._health.memory,
        )

    def _watch(self) -> Verdict:
        """Watch the client until a verdict is possible, and return the verdict.

        The cluster stops its misbehaviour ``Limits.bad`` seconds after it has misbehaved first. If the run is stopped,
        the verdict is SKIPPED.
        """
        most_memory = self._health.memory + self._limits.memory
        misbehaved: float | None = None
        while not self._stop.is_set():
            now = time.monotonic()
            self._process.wait(SAMPLED)
            self._broker.keep_fed(now - self._began)
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
        return Verdict.SKIPPED

    def _ended(self) -> Verdict | None:
        code = self._process.exit_code
        if code is None:
            return None
        if self._process.has_crashed:
            return Verdict.CRASHED
        if not self._broker.applied:
            return Verdict.SKIPPED
        return Verdict.REFUSED if code else Verdict.SURVIVED

    def _has_recovered(self) -> bool:
        self._missing -= self._broker.seen()[1]
        return bool(self._health.goals) and not self._missing


def _signal(code: int | None) -> str:
    """Return the name of the signal that an exit code reports, or the exit code itself."""
    number = 0 if code is None else -code if code < 0 else code - SIGNALLED
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"exit code {code}"


def _quoted(output: str, preferred: Sequence[str] = ()) -> str:
    """Return the last line of a client's output for the end of a sentence; "" if the output has no text.

    Args:
        output: output of the client.
        preferred: texts. If lines contain one of these texts, the last of these lines is returned.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if not lines:
        return ""
    found = [line for line in lines if any(text in line for text in preferred)]
    return f": {one_line((found or lines)[-1])[:QUOTED]}"
