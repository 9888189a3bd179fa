"""The output of the consumer examples, record by record, on the mock and on a real Kafka: ``--bootstrap HOST:PORT``."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from golden import ROOT
from interop.stage import MARKS, need_client

pytestmark = MARKS

LIMIT = 90.0  # seconds for one example; on a real Kafka a session takes 6
DONE = {
    "auto_commit": """\
all topics: ['sugar 0: brown', 'tea 0: green', 'tea 1: black']
one topic: ['tea 0: green', 'tea 1: black']
the next member of its group: ['tea 2: white']
""",
    "commits": """\
before: [None, None]
one partition: [1, None]
with a note: OffsetAndMetadata(offset=2, metadata='by hand', leader_epoch=-1)
going on
called back: {0: 2} stored
called back: {0: 3, 1: 3} stored
all positions: [3, 3]
""",
    "batch_insert": """\
first: fetch from 0, get 5
first: insert 5
first: commit offset = 5
first: fetch from 5, get 5
first: insert 5
first: commit offset = 10
first: fetch from 10, get 5
first: insert 5
first: crash
second: fetch from 10, get 5
second: insert 5
second: commit offset = 15
third: fetch from 15, get 5
third: insert 5
third: commit offset = 20
in the database: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 10 11 12 13 14 15 16 17 18 19
twice: 10 11 12 13 14
""",
    "loses": """\
in memory: 0 1 2 3 4 5 6 7 8 9
committed: 5
done by the next member: 5 6 7 8 9 10 11
lost: 0 1 2 3 4
""",
    "assigned": """\
right: 1/0 1/1 1/2
left: 0/0 0/1 0/2
right, for longer than a session: []
right has partitions 1
generation and member id: -1 ''
right: 1/3
left again: 0/3 0/4
""",
    "exactly_once": """\
from 0, one stored, a crash with records in hand
from 1, one stored, a crash after the result
from 2, one stored, a crash after the offset
from 3, one stored, a crash after the transaction
from 5
c0 1001001 right
c1 10010010 right
c2 100100 right
""",
    "failed_record": """\
partition 0: offset 1 failed; 1 done
partition 1: offset 3 failed; 3 done
partition 0: offset 1 failed; 1 done
done: {0: 4, 1: 4}
committed: {0: 4, 1: 4}
generations: 1
""",
    "rewind_group": """\
read: 20 records
read again: 20 records, 10 10 by their present owners
without the flag: [(0, 5), (1, 5), (2, 5), (3, 5)]
""",
    "rewind_store": """\
first begins after 0 records
committed in the group: None
first gives up 2 partitions and saves what it holds: 3
second begins after 7 records
committed in the group: None
second gives up 2 partitions and saves what it holds: 1
partition 0: 0 1 2 3 4 5
partition 1: 0 1 2 3 4 5
third begins after 8 records
committed in the group: None
third gives up 2 partitions and saves what it holds: 0
partition 0: 0 1 2 3 4 5 4 5
partition 1: 0 1 2 3 4 5 4 5
""",
    "caches": """\
first reads 0: {}
first reads 1: {}
first reads 2: {}
first reads 3: {}
first writes 2 3
second reads 2: {'tea': 1, 'milk': 1}
second reads 3: {'tea': 1, 'milk': 1}
counted in 0: {'tea': 2, 'milk': 1}
counted in 1: {'tea': 2, 'milk': 1}
counted in 2: {'tea': 2, 'milk': 1}
counted in 3: {'tea': 2, 'milk': 1}
second writes 2 3
first writes 0 1
""",
    "flow": """\
priorities: urgent 0 to 1, then plain 0 to 9, then urgent 2 to 3, then plain 10 to 24
catching up: prices 96 to 98, then history 0 to 24
join: orders stop at 20, a moment later they are at 20; payments have caught up, orders are at 20; \
60 pairs, at most 20 halves held
""",
    "stores": """\
InZooKeeper: [[0, 1, 2, 3], [4, 5, 6, 7]]; in Kafka's log: []
InKafka: [[0, 1, 2, 3], [4, 5, 6, 7]]; in Kafka's log: [4, 8]
InDatabase: [[0, 1, 2, 3], [4, 5, 6, 7]]; in Kafka's log: []
node /consumers/GROUP/offsets/TOPIC/0 8
rows [4, 8]
""",
    "slow": """\
at most 12 a poll: 24 records worked on, 0 committed, 2 commits refused
at most 2 a poll: 12 records worked on, 12 committed, 0 commits refused
""",
    "tasks": """\
one by one: 200 records, order kept
    N connections, N records a poll, N s
    committed: 50 50 50 50
one channel: 200 records, order lost in 4 partitions
    N connections, N records a poll, N s
    committed: 50 50 50 50
by partition: 200 records, order kept
    N connections, N records a poll, N s
    committed: 50 50 50 50
""",
}
MEASURED = r"\d+(\.\d+)?(?= (connections|records a poll|s)\b)"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    bootstrap = metafunc.config.getoption("bootstrap")
    if "broker" in metafunc.fixturenames:
        metafunc.parametrize("broker", [bootstrap] if bootstrap else [""], ids=["kafka" if bootstrap else "mock"])


def test_every_example_is_listed() -> None:
    assert {path.stem.removeprefix("consumer_") for path in (ROOT / "examples").glob("consumer_*.py")} == {*DONE}


@pytest.mark.parametrize("example", DONE)
def test_example_output(example: str, broker: str) -> None:
    need_client("confluent-kafka")
    file = ROOT / "examples" / f"consumer_{example}.py"
    command = [sys.executable, str(file), *([broker] if broker else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr + done.stdout
    output = re.sub(MEASURED, "N", done.stdout) if example == "tasks" else done.stdout
    if example == "tasks":
        for what in ("connections", "records a poll"):
            alone, *shared = (float(number) for number in re.findall(rf"([\d.]+) {what}", done.stdout))
            assert alone > max(shared) if what == "connections" else alone < min(shared), what
    if example == "failed_record":
        assert sorted(output.splitlines()) == sorted(DONE[example].splitlines())
    else:
        assert output == DONE[example]
