"""A soak: ``python fuzzing/soak.py [--hours 1] [--seed N] [--keep FILE]``, or ``make soak HOURS=0.5``.

Real clients of six families produce, consume and process in transactions, over plaintext, TLS and SASL. At random times
that depend on the seed, members leave and join, brokers stop and start, fault rules are applied, the process of the
brokers is killed, and its disk is full. Clients of Java, Go and Node.js are left out where their tools are not
installed. At the end, ledgers prove that each acknowledged record was delivered to each group at least once, and
through the transactions exactly once. The slopes of memory, descriptors, tasks and threads have confidence bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import soak_foreign as foreign
from soak_broker import BLOCKS, BROKERS, TOPICS, BrokerProcess
from soak_disk import enter_namespace
from soak_figures import Overtaken, Sample, lost, not_exactly_once, slope
from soak_foreign import FAMILIES

CLIENTS = {  # name -> role and topic
    "pc": ("produce-confluent", "plain"),
    "pk": ("produce-kafka-python", "plain"),
    "pa": ("produce-aiokafka", "plain"),
    "in": ("produce-confluent", "in"),
    "c1": ("consume-confluent", "plain"),
    "c2": ("consume-confluent", "plain"),
    "k1": ("consume-kafka-python", "plain"),
    "k2": ("consume-kafka-python", "plain"),
    "a1": ("consume-aiokafka", "plain"),
    "t1": ("process", "in:out"),
    "t2": ("process", "in:out"),
    "pj": ("produce-java", "plain"),
    "pg": ("produce-franz-go", "plain"),
    "pn": ("produce-kafkajs", "plain"),
    "j1": ("consume-java", "plain"),
    "g1": ("consume-franz-go", "plain"),
    "g2": ("consume-franz-go", "plain"),
    "n1": ("consume-kafkajs", "plain"),
}
AUDITORS = {
    name: ("audit", f"{topic}:{count}") for name, (topic, count) in zip(("r1", "r2", "r3"), TOPICS.items(), strict=True)
}
FAMILIES_OF_PYTHON = ("confluent-kafka", "kafka-python", "aiokafka")
GROUPS = {
    "modern": ("c1", "c2"),
    "classic": ("k1", "k2"),
    "classic-aio": ("a1",),
    "java": ("j1",),
    "franz-go": ("g1", "g2"),
    "kafkajs": ("n1",),
}
PROCESSORS = "processors"  # group of the clients that process in transactions
READ = {**dict.fromkeys(GROUPS, "plain"), PROCESSORS: "in"}  # group -> its topic
PRODUCERS = ("pc", "pk", "pa", "pj", "pg", "pn")
MOST_GROWN = 8  # types of objects in the table
EVERY = 8.0  # mean seconds between two events
SAMPLED_EVERY = 2.0  # seconds
WARM_UP = 0.5  # minutes of each process of the broker that do not count for slopes
FILLED = 300.0  # seconds until the logs are as long as retention allows; at most half of the soak
ENDINGS = ("the process is killed", "the disk is full")
LAST_WAIT = 180.0  # seconds for the consumers to read the rest
MEASURED = {"memory": "KiB", "descriptors": "", "sockets": "", "files of logs": "", "tasks": "", "threads": ""}
RULES: list[dict[str, Any]] = [
    {"match": {"api": ["Fetch", "Produce"]}, "action": {"delay_ms": 300}, "occurrence": {"times": 20}},
    {"match": {"api": ["Produce"]}, "action": {"disconnect": "after"}, "occurrence": {"times": 3}},
    {"match": {"api": ["Produce"]}, "action": {"error": "NOT_LEADER_OR_FOLLOWER"}, "occurrence": {"times": 5}},
    {
        "match": {"api": ["OffsetCommit"]},
        "action": {"error": "COORDINATOR_LOAD_IN_PROGRESS"},
        "occurrence": {"times": 5},
    },
    {"match": {"api": ["JoinGroup", "SyncGroup"]}, "action": {"disconnect": "before"}, "occurrence": {"times": 2}},
    {
        "match": {"api": ["Heartbeat", "ConsumerGroupHeartbeat"]},
        "action": {"disconnect": "after"},
        "occurrence": {"times": 3},
    },
    {"match": {"api": ["EndTxn"]}, "action": {"disconnect": "after"}, "occurrence": {"times": 1}},
    {
        "match": {"api": ["AddPartitionsToTxn"]},
        "action": {"error": "CONCURRENT_TRANSACTIONS"},
        "occurrence": {"times": 3},
    },
]


@dataclass
class Soak:
    """A soak while it runs.

    Attributes:
        folder: Its folder, with the ledgers and the output of the processes.
        random: Source of all random choices.
        broker: The process of the brokers.
        foreign: The command of each family of clients in another language, by the end of its roles.
        clients: Processes of the clients, by name.
        away: Clients that were stopped: name -> time at which they start again.
        down: Brokers that are stopped: id -> time at which they start again.
        samples: Measured values of the broker.
        events: How often each kind of event happened.
        overtaken: Records that retention deleted before a group had read them, by group.
        objects: Number of objects of the broker by type, at half of a steady soak and at its end.
    """

    folder: Path
    random: Random
    broker: BrokerProcess
    foreign: Mapping[str, Sequence[str]] = field(default_factory=dict)
    clients: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    away: dict[str, float] = field(default_factory=dict)
    down: dict[int, float] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    overtaken: dict[str, Overtaken] = field(default_factory=lambda: {group: Overtaken() for group in READ})
    objects: list[dict[str, int]] = field(default_factory=list)

    @property
    def all_clients(self) -> dict[str, tuple[str, str]]:
        """The clients, without those of families that are not installed, and the auditors."""
        missing = [family for family in FAMILIES if family not in self.foreign]
        return {
            name: row for name, row in (CLIENTS | AUDITORS).items() if not row[0].endswith(tuple(missing) or ("-none",))
        }

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The groups that read the topic ``plain``, with their members."""
        return {group: names for group, names in GROUPS.items() if names[0] in self.all_clients}

    @property
    def producers(self) -> list[str]:
        """The producers of the topic ``plain``."""
        return [name for name in PRODUCERS if name in self.all_clients]

    def ledger(self, name: str) -> Path:
        return self.folder / f"{name}.ledger"

    def start_client(self, name: str) -> None:
        role, topic = self.all_clients[name]
        self.ledger(name).touch()
        script = str(Path(__file__).with_name("soak_clients.py"))
        program = self.foreign.get(role.partition("-")[2], [sys.executable, script])
        command = [*program, role, topic, name, str(self.ledger(name)), json.dumps(self.broker.addresses)]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.clients[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603

    def stop_client(self, name: str, number: int) -> None:
        """End a client by a signal; one that does not end in time is killed."""
        process = self.clients.pop(name)
        process.send_signal(number)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    # --- events ---

    def kill_client(self) -> None:
        name = self.random.choice(sorted(self.clients.keys() - AUDITORS.keys()))
        self.stop_client(name, signal.SIGKILL)
        self.away[name] = time.monotonic() + self.random.uniform(1, 8)

    def leave(self) -> None:
        name = self.random.choice(sorted(self.clients.keys() - AUDITORS.keys()))
        self.stop_client(name, signal.SIGTERM)
        self.away[name] = time.monotonic() + self.random.uniform(1, 8)

    def stop_broker(self) -> None:
        node = self.random.randrange(BROKERS)
        if not self.down:
            self.broker.control("POST", f"/v1/brokers/{node}", {"action": self.random.choice(["stop", "kill"])})
            self.down[node] = time.monotonic() + self.random.uniform(3, 12)

    def add_rule(self) -> None:
        self.broker.control("POST", "/v1/faults", self.random.choice(RULES))

    def kill_process(self) -> None:
        self.broker.kill()
        self.restart()

    def fill_disk(self) -> None:
        """Fill the disk, so that a write fails and the broker stops; then free the disk and restart the broker."""
        self.broker.fill_disk()
        until = time.monotonic() + 30
        while self.broker.alive and time.monotonic() < until:
            time.sleep(0.1)
        self.events["stopped by the full disk"] += not self.broker.alive
        if self.broker.alive:
            self.broker.kill()
        self.restart()

    def restart(self) -> None:
        self.down.clear()
        self.broker.start()

    # --- the run ---

    def run(self, seconds: float, *, steady: bool) -> None:
        """Cause random events for a time. ``steady``: without the events that end the process of the brokers."""
        begun = time.monotonic()
        end = begun + seconds
        kinds: dict[str, tuple[Callable[[], None], int]] = {
            "a client is killed": (self.kill_client, 4),
            "a client leaves": (self.leave, 4),
            "a broker stops": (self.stop_broker, 4),
            "a fault rule": (self.add_rule, 6),
            "the process is killed": (self.kill_process, 2),
            "the disk is full": (self.fill_disk, 1),
        }
        if steady:
            kinds = {name: kind for name, kind in kinds.items() if name not in ENDINGS}
        names = [name for name, (_, weight) in kinds.items() for _ in range(weight)]
        following = time.monotonic() + self.random.expovariate(1 / EVERY)
        while time.monotonic() < end:
            if steady and not self.objects and time.monotonic() - begun > seconds / 2:
                self.objects.append(self.broker.objects())
            if time.monotonic() - begun > min(FILLED, seconds / 2):
                self.sample()
            self.bring_back()
            self.watch_retention()
            if time.monotonic() >= following:
                name = self.random.choice(names)
                kinds[name][0]()
                self.events[name] += 1
                following = time.monotonic() + self.random.expovariate(1 / EVERY)
            time.sleep(SAMPLED_EVERY)
        if steady:
            self.objects.append(self.broker.objects())

    def bring_back(self, *, everything: bool = False) -> None:
        """Start the clients and brokers whose time is due, and restart clients that have ended by themselves."""
        now = time.monotonic()
        for name in [name for name, process in self.clients.items() if process.poll() is not None]:
            self.events["a client ends by itself"] += 1
            self.start_client(name)
        for name in [name for name, at in self.away.items() if everything or at <= now]:
            del self.away[name]
            self.start_client(name)
        for node in [node for node, at in self.down.items() if everything or at <= now]:
            del self.down[node]
            self.broker.control("POST", f"/v1/brokers/{node}", {"action": "start"})

    def sample(self) -> None:
        minutes = (time.monotonic() - self.broker.started) / 60
        self.samples.append(Sample(self.broker.runs, minutes, self.broker.values()))

    def watch_retention(self) -> None:
        """Compare the log start offsets with the committed offsets of the groups. Nothing if the broker is down."""
        try:
            topics = self.broker.control("GET", "/v1/topics?limit=1000")["items"]
        except OSError:
            return
        for group, overtaken in self.overtaken.items():
            try:
                committed = self.broker.control("GET", f"/v1/groups/{group}")["offsets"]
            except OSError:
                continue
            (read,) = (topic for topic in topics if topic["name"] == READ[group])
            starts = {each["partition"]: each["start"] for each in read["partitions"]}
            overtaken.see(starts, {each["partition"]: each["offset"] for each in committed})

    # --- the end ---

    def noted(self, names: Iterable[str]) -> list[str]:
        """Return the values in the ledgers of clients."""
        lines = [line for name in names for line in self.ledger(name).read_text("utf-8").splitlines()]
        return [line.partition(" ")[0] for line in lines if "-" in line]

    def deleted(self, group: str) -> set[str]:
        """Return the values that retention deleted before a group had read them."""
        (auditor,) = (name for name, (_, topic) in AUDITORS.items() if topic.partition(":")[0] == READ[group])
        words = [line.split() for line in self.ledger(auditor).read_text("utf-8").splitlines()]
        found = [line for line in words if len(line) == 3]
        return {value for value, index, offset in found if self.overtaken[group].includes(int(index), int(offset))}

    def unprocessed(self) -> tuple[list[str], list[str]]:
        """Return the values that were not processed exactly once, and those that retention deleted before."""
        stored, processed, deleted = self.noted(["r2"]), self.noted(["r3"]), self.deleted(PROCESSORS)
        wrong, excused = not_exactly_once(stored, processed), deleted - set(processed)
        return [value for value in wrong if value not in excused], [value for value in wrong if value in excused]

    def undelivered(self, group: str, promised: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the promised values that a group has not received: values that are lost for the group, and values that
        retention deleted before.
        """
        missing, deleted = lost(promised, self.noted(self.groups[group])), self.deleted(group)
        return [value for value in missing if value not in deleted], [value for value in missing if value in deleted]

    def finish(self) -> dict[str, Any]:
        """End the events and the producers, wait for the consumers, and return the results of the ledgers."""
        self.bring_back(everything=True)
        for name in (*self.producers, "in"):
            self.stop_client(name, signal.SIGTERM)
        promised, until = self.noted(self.producers), time.monotonic() + LAST_WAIT
        while time.monotonic() < until:
            self.bring_back()
            self.watch_retention()
            missing = [value for group in self.groups for value in self.undelivered(group, promised)[0]]
            if not missing and not self.unprocessed()[0]:
                break
            time.sleep(2)
        for name in list(self.clients):
            self.stop_client(name, signal.SIGTERM)
        stored, processed = self.noted(["r2"]), self.noted(["r3"])
        twice, unread = self.unprocessed()
        groups = {group: self.undelivered(group, promised) for group in self.groups}
        return {
            "acknowledged": len(promised) + len(self.noted(["in"])),
            "lost from the log": lost(promised, self.noted(["r1"])) + lost(self.noted(["in"]), stored),
            "not delivered": {group: missing for group, (missing, _) in groups.items()},
            "deleted before": {group: deleted for group, (_, deleted) in groups.items()} | {PROCESSORS: unread},
            "in transactions": len(processed),
            "not exactly once": twice,
        }


def soak(folder: Path, seconds: float, seed: int, *, steady: bool = False) -> dict[str, Any]:
    """Run a soak; return its result. ``steady``: the process of the brokers is not killed, and its disk not full."""
    random = Random(seed)  # noqa: S311
    (folder / "java").mkdir()
    running = Soak(folder, random, BrokerProcess(folder, random), foreign.commands(folder / "java"))
    begun = time.monotonic()
    try:
        running.broker.start()
        for name in running.all_clients:
            running.start_client(name)
        running.run(seconds, steady=steady)
        ledger = running.finish()
        exit_code = running.broker.stop()
    finally:
        for name in list(running.clients):
            running.stop_client(name, signal.SIGKILL)
        if running.broker.alive:
            running.broker.kill()
        running.broker.disk.close()
    slopes = {name: slope(running.samples, name, after=WARM_UP) for name in MEASURED}
    return {
        "seed": seed,
        "steady": steady,
        "full disk": "no space left" if running.broker.disk.sized else "limit of file length",
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "events": dict(sorted(running.events.items())),
        "processes of the broker": running.broker.runs,
        "exit code": exit_code,
        "samples": len(running.samples),
        "slopes": {name: asdict(found) if found else None for name, found in slopes.items()},
        "errors": tracebacks(folder),
        "objects": most_grown(*running.objects) if len(running.objects) == 2 else {},
        "families": [*FAMILIES_OF_PYTHON, *running.foreign],
        **ledger,
    }


def most_grown(half: Mapping[str, int], end: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return the number of memory blocks, and of the types of objects that have grown most, at half and at the end.

    Args:
        half: numbers at half of the soak.
        end: numbers at its end.
    """
    grown = sorted(end, key=lambda name: half.get(name, 0) - end[name])
    return {
        name: (half.get(name, 0), end[name])
        for name in (BLOCKS, *[each for each in grown if each != BLOCKS][:MOST_GROWN])
    }


def tracebacks(folder: Path) -> int:
    """Return the number of tracebacks in the output of the broker."""
    return (folder / "broker.log").read_text("utf-8", "replace").count("Traceback")


def holds(result: dict[str, Any]) -> bool:
    """Return whether a soak has passed: records were delivered as promised, and the broker had no error."""
    broken = result["lost from the log"] or any(result["not delivered"].values()) or result["not exactly once"]
    return not broken and not result["errors"] and not result["exit code"]


def lines(result: dict[str, Any]) -> list[str]:
    """Return the table of a result in Markdown."""
    rows = [
        ("duration, seed", f"{result['minutes']} minutes, {result['seed']}"),
        ("families of clients", ", ".join(result.get("families", FAMILIES_OF_PYTHON))),
        ("one process of the brokers to the end", "yes" if result["steady"] else "no"),
        *([] if result["steady"] else [("full disk", result.get("full disk", "limit of file length"))]),
        ("acknowledged records", f"{result['acknowledged']:,}"),
        ("lost from the log", len(result["lost from the log"])),
        *((f"not delivered to {group}", len(values)) for group, values in result["not delivered"].items()),
        *(
            (f"deleted by retention before {group} read them", len(v))
            for group, v in result.get("deleted before", {}).items()
        ),
        ("records in committed transactions", f"{result['in transactions']:,}"),
        ("not exactly once", len(result["not exactly once"])),
        ("tracebacks of the broker", result["errors"]),
        *([("exit code of the broker", result["exit code"])] if result["exit code"] else []),
        *((name, count) for name, count in result["events"].items()),
    ]
    for name, found in result["slopes"].items():
        unit = f" {MEASURED[name]}".rstrip()
        text = f"{found['per_minute']:+.2f} ± {found['bound']:.2f}{unit} a minute" if found else "too few samples"
        rows.append((f"slope of {name}", text))
    rows += [
        (f"`{name}` at half, at the end", f"{half:,}, {end:,}")
        for name, (half, end) in result.get("objects", {}).items()
    ]
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]


def keep(path: Path, result: dict[str, Any]) -> None:
    """Add a result to a file of results; it replaces one of the same seed and kind (steady or not)."""
    kept = json.loads(path.read_text("utf-8")) if path.exists() else []
    kept = [*(each for each in kept if any(each[name] != result[name] for name in ("seed", "steady"))), result]
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=1.0, help="also a fraction")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    parser.add_argument("--steady", action="store_true", help="one process of the brokers to the end, for the slopes")
    parser.add_argument("--keep", type=Path, help="file for the result, as JSON")
    parser.add_argument("--folder", type=Path, help="folder of the soak, which is kept")
    given = parser.parse_args()
    enter_namespace()
    if given.folder:
        given.folder.mkdir(parents=True)
        result = soak(given.folder, given.hours * 3_600, given.seed, steady=given.steady)
    else:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            result = soak(Path(folder), given.hours * 3_600, given.seed, steady=given.steady)
    sys.stdout.write("\n".join(lines(result)) + "\n")
    if given.keep:
        keep(given.keep, result)
    return 0 if holds(result) else 1


if __name__ == "__main__":
    sys.exit(main())
