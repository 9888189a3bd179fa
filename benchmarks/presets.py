"""Records what real clients do under each preset, for docs/presets.md.

    python benchmarks/presets.py benchmarks/results/presets.json [PRESET...]

Each client runs against a cluster of its own, all clients of a preset at the same time. The file keeps the observations
of presets that are not named. It needs the clients that `make interop` needs.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from interop.adapters import ADAPTERS
from interop.stage import CONFIG, Member, Stage
from interop.transformers import OUTPUT, transformer

from mockbroker import ThreadCluster, run_cluster
from mockbroker.faults.presets import PRESETS

CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka", "java", "franz-go")
TOPIC, GROUP = "orders", "billing"
NEW = 10  # records that are produced while the preset is active
BEFORE = 5  # records that were read before
UNDER, AFTER = 5.0, 6.0  # seconds for which a client is observed while the preset is active, and after it was removed
STARTED = 20.0  # seconds for a member to read the first records
PRODUCED = 20.0  # seconds for a producer
PARAMETERS: dict[str, dict[str, Any]] = {
    "rebalance-storm": {"times": 3},
    "zombie-member": {"duration_ms": 4_000},
    "no-sync-group": {"duration_ms": 4_000},
    "coordinator-loading": {"duration_ms": 3_000},
    "throttled-producer": {"throttle_ms": 500},
    "invalid-schema-id": {"id": 1},  # the example prints values as text, so their bytes must be UTF-8
    "slow-broker": {"broker": 0},
    "rolling-restart": {"down_ms": 1_000, "pause_ms": 700},
    "unclean-leader-election": {"topic": TOPIC, "records": 3},
}
WITH_CLIENT_ID = {"zombie-member", "blackholed-client"}
BEFORE_JOIN = {"no-sync-group"}
PRODUCERS = {"throttled-producer", "slow-producer"}
TRANSACTIONS = {"transaction-coordinator-lost-at-end-txn"}
EXCEPTION = re.compile(r"panic: .*|(?:Caused by: )?[\w.$]*(?:Error|Exception)\b.*")
LONGEST = 120  # characters of an exception


@dataclass
class Outcome:
    """What a client did.

    Attributes:
        read: Number of new records that a consumer read, or of records that a producer wrote.
        expected: Number of new records that there were.
        again: Number of records, new or old, that were read or written again.
        changed: Number of records with another value than was produced.
        pause_s: The longest time in seconds without a new record; of a producer the time until all were written.
        committed: Whether a commit during the preset was confirmed; None if there was none.
        joins: Number of times that the member joined again.
        evicted: Number of times that the member was evicted.
        ended: The exception that ended the program, or the error of a producer; "" if there is none.
        applied: Number of requests that the rules were applied to.
    """

    read: int = 0
    expected: int = NEW
    again: int = 0
    changed: int = 0
    pause_s: float = 0.0
    committed: bool | None = None
    joins: int = 0
    evicted: int = 0
    ended: str = ""
    applied: int = 0


def value(number: int) -> str:
    """Return a value that is valid UTF-8 also with all bits inverted."""
    return "".join(chr(0xC0 + int(digit)) for digit in f"{number:03}")


class Observed(Stage):
    """A member of a group of its own, on a cluster of its own."""

    topic, group, partitions = TOPIC, GROUP, 1


def observe(preset: str, client: str) -> Outcome:
    """Run one client under one preset."""
    config = CONFIG | {"default.replication.factor": 3, "transaction.state.log.replication.factor": 3}
    with run_cluster(brokers=3, topics={TOPIC: 1, OUTPUT: 1}, config=config) as cluster:
        parameters = PARAMETERS.get(preset, {}) | ({"client_id": client} if preset in WITH_CLIENT_ID else {})

        def apply() -> None:
            cluster.faults.add_preset(preset, parameters)

        if preset in PRODUCERS:
            return _produce(cluster, client, apply)
        stage = Observed(cast("Any", cluster))
        try:
            run = _transform if preset in TRANSACTIONS else _consume
            return run(stage, client, apply, first=preset in BEFORE_JOIN)
        finally:
            for member in stage.members:
                with suppress(BrokenPipeError):  # it has ended before it has read its last command
                    member.clean_up()


def _applied(cluster: Any) -> int:
    return sum(int(state.applied) for state in cluster.faults.states())


def _until(condition: Callable[[], object], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _consume(stage: Stage, client: str, apply: Callable[[], None], *, first: bool) -> Outcome:
    cluster, outcome = stage.cluster, Outcome()
    for number in range(BEFORE):  # a batch each
        cluster.produce(TOPIC, [value(number)])
    if first:
        apply()
    member = stage.member(client, client)
    if not first:
        if not _until(lambda: len(member.records) >= BEFORE, STARTED):
            raise RuntimeError(f"{client} has not read the first records: {member.log[-3:]}")
        member.say("commit")
        _until(lambda: member.committed, STARTED)
        apply()
    begin, events, commits = time.monotonic(), len(cluster.events()), member.committed
    start = len(member.records)
    produced: dict[int, str] = {}
    arrivals = [begin]
    for number in range(BEFORE, BEFORE + NEW):
        (offset,) = cluster.produce(TOPIC, [value(number)])
        produced[offset] = value(number)
        _watch(member, arrivals, begin, UNDER / NEW * (number - BEFORE + 1))
        if number == BEFORE + NEW // 2 and not first:
            _say(member, "commit")
    under = time.monotonic()
    outcome.applied = _applied(cluster)
    cluster.faults.remove("*")
    _until(lambda: _watch(member, arrivals, under, 0) or _ended(member) or _has_all(member, produced, start), AFTER)
    records = [(offset, text) for _, _, offset, text in member.records[start:] if offset in produced]
    outcome.read = len({offset for offset, _ in records})
    outcome.again = len(member.records) - start - outcome.read
    outcome.changed = len({offset for offset, text in records if text != produced[offset]})
    stops = [*arrivals, *([] if _has_all(member, produced, start) else [time.monotonic()])]
    outcome.pause_s = round(max((b - a for a, b in pairwise(stops)), default=0.0), 1)
    outcome.committed = None if first else member.committed > commits
    later = cluster.events()[events:]
    outcome.joins = sum(event.event in ("join", "rejoin") for event in later) - int(first)
    outcome.evicted = sum(event.event == "expire" for event in later)
    outcome.ended = _last_words(member) if _ended(member) else ""
    return outcome


def _has_all(member: Member, produced: dict[int, str], start: int) -> bool:
    return produced.keys() <= {offset for _, _, offset, _ in member.records[start:]}


def _watch(member: Member, arrivals: list[float], begin: float, until: float) -> bool:
    """Note when records arrive, until so many seconds after ``begin``; return False."""
    seen = getattr(member, "_seen", 0)
    while True:
        if len(member.records) != seen:
            seen = len(member.records)
            arrivals.append(time.monotonic())
        if time.monotonic() - begin >= until:
            member._seen = seen  # type: ignore[attr-defined]
            return False
        time.sleep(0.02)


def _say(member: Member, command: str) -> None:
    with suppress(OSError):  # it has ended
        member.say(command)


def _ended(member: Member) -> bool:
    return member._process.poll() is not None


def _last_words(member: Member) -> str:
    """Return the exception that ended a program."""
    exceptions = [line.strip() for line in member.log if EXCEPTION.match(line.strip())]
    return _shortened(exceptions[-1] if exceptions else "no exception in its log")


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _produce(cluster: ThreadCluster, client: str, apply: Callable[[], None]) -> Outcome:
    outcome = Outcome()
    adapter = ADAPTERS[client](cluster.bootstrap_servers)
    adapter.produce(TOPIC, {0: ["first"]})
    apply()
    values = [f"{number:03}" + "x" * 20_000 for number in range(NEW)]  # more than batch.size, so a batch each
    failed: list[str] = []

    def send() -> None:
        try:
            adapter.produce(TOPIC, {0: values})
        except Exception as error:  # it is what is recorded
            failed.append(_shortened(f"{type(error).__name__}: {error}"))

    begin = time.monotonic()
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    sender.join(PRODUCED)
    outcome.pause_s = round(time.monotonic() - begin, 1)
    outcome.applied = _applied(cluster)
    written = [record.value for record in cluster.records(TOPIC)][1:]
    outcome.read = len(set(written))
    outcome.again = len(written) - outcome.read
    outcome.ended = failed[0] if failed else ""
    cluster.faults.remove("*")
    sender.join(STARTED)
    return outcome


def _transform(stage: Stage, client: str, apply: Callable[[], None], *, first: bool) -> Outcome:  # noqa: ARG001
    cluster, outcome = stage.cluster, Outcome(expected=BEFORE)
    for number in range(BEFORE):
        cluster.produce(TOPIC, [value(number)])
    member = transformer(stage, client, client)
    _until(lambda: member.events["ready"], STARTED)
    member.say(f"take {BEFORE}")
    if not _until(lambda: member.events["taken"], STARTED):
        raise RuntimeError(f"{client} has not taken the records: {member.log[-3:]}")
    apply()
    begin = time.monotonic()
    member.say("commit")
    _until(lambda: member.events["committed"] or _ended(member), UNDER + AFTER)
    outcome.pause_s = round(time.monotonic() - begin, 1)
    outcome.committed = bool(member.events["committed"])
    outcome.applied = _applied(cluster)
    written = [record.value for record in cluster.records(OUTPUT, committed=True)]
    outcome.read = len(set(written))
    outcome.again = len(written) - outcome.read
    outcome.ended = _last_words(member) if _ended(member) else ""
    return outcome


def main(file: Path, names: list[str]) -> None:
    seen = json.loads(file.read_text("utf-8")) if file.exists() else {}
    for name in names or PRESETS:
        with ThreadPoolExecutor(len(CLIENTS)) as pool:
            running = {client: pool.submit(observe, name, client) for client in CLIENTS}
        found = {}
        for client, future in running.items():
            try:
                found[client] = asdict(future.result())
            except Exception as error:  # the next client is tried
                sys.stderr.write(f"{name}, {client}: {error!r}\n")
        seen[name] = {"parameters": PARAMETERS.get(name, {}), "clients": found}
        file.write_text(json.dumps(seen, indent=1, ensure_ascii=False) + "\n", "utf-8")
        sys.stdout.write(f"{name}: {json.dumps(found)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
