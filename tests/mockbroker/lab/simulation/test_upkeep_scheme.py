"""The checkers of retention, compaction, expiry and quotas, without a simulation: what they must report, and what Kafka
allows."""

from __future__ import annotations

from dataclasses import asdict, replace
from math import inf

import pytest

from mockbroker.lab.simulation.checkers import CHECKERS
from mockbroker.lab.simulation.checkers.final_log import FinalLog
from mockbroker.lab.simulation.history import History
from mockbroker.lab.simulation.schemes import SCHEMES
from mockbroker.lab.simulation.upkeep_history import (
    KeyedBatch,
    LogStart,
    Policy,
    QuotaChange,
    QuotaUse,
    Renewal,
    Scan,
    Upkeep,
)
from mockbroker.lab.simulation.world import World

PLACE = "t", 0
AGED = {"retention.ms": "2000", "segment.ms": "1000"}
LARGE = {"retention.ms": "-1", "retention.bytes": "150"}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.compaction.lag.ms": "1000",
    "max.compaction.lag.ms": "5000",
    "delete.retention.ms": "4000",
}
RATE, MUTATION = "producer_byte_rate", "controller_mutation_rate"


class Story:
    """The history of clients of one topic."""

    def __init__(self, configs: dict[str, str] | None = None) -> None:
        policies = {"t": Policy.of(configs)} if configs is not None else {}
        expirations = {"committed offset": 60.0}
        upkeep = Upkeep(policies, expirations, window=(1.0, 3), burst=2.0, compaction_interval=0.2)
        self.history = History(upkeep=replace(upkeep, retention_interval=0.5))
        self.upkeep = self.history.upkeep

    def write(self, at: float, offset: int, *records: tuple[bytes, bytes | None]) -> None:
        given = records or ((b"k", b"v"),)
        batch = KeyedBatch(PLACE, given, int(at * 1000), 100, at, at + 0.1 if offset >= 0 else inf, offset)
        self.upkeep.batches.append(batch)

    def start(self, at: float, offset: int, *, final: bool = False) -> None:
        self.upkeep.starts.append(LogStart(PLACE, offset, at, at + 0.1, final))

    def scan(self, at: float, end: int, *records: tuple[int, bytes, bytes | None], final: bool = False) -> None:
        self.upkeep.scans.append(Scan(PLACE, 0, end, at, at + 0.1, records, final))

    def renew(self, at: float, *, expired: bool = False) -> None:
        self.upkeep.renewals.append(Renewal("committed offset", "g", at, at + 0.1, expired))

    def use(self, at: float, amount: int, quota: str = RATE, throttle_ms: int = 0) -> None:
        self.upkeep.quota_uses.append(QuotaUse("m1", 7, quota, amount, throttle_ms, at, at + 0.1))

    def limit(self, at: float, value: float, quota: str = RATE) -> None:
        self.upkeep.quota_changes.append(QuotaChange("m1", quota, value, at, at + 0.1))

    @property
    def broken(self) -> dict[str, str]:
        """Return the violated invariants."""
        log = FinalLog(self.history)
        return {name: text for name, check in CHECKERS.items() if (text := check(log))}


def test_an_old_record_is_deleted():
    story = Story(AGED)
    story.write(1.0, 0)
    story.start(2.0, 0)
    story.start(3.5, 1)
    assert not story.broken


def test_a_young_record_is_deleted():
    story = Story(AGED)
    story.write(1.0, 0)
    story.start(2.0, 1)
    assert story.broken["I42"] == (
        "the start of t-0 was 1 at 2.100 s, but the record at 0 was neither old nor did it exceed the size"
    )


def test_a_clock_that_jumped_makes_records_old():
    story = Story(AGED)
    story.write(1.0, 0)
    story.history.jumps.append((1.5, 2.0))
    story.start(2.0, 1)
    assert not story.broken


@pytest.mark.parametrize(("later", "broken"), [(1, True), (2, False)], ids=["below the limit", "above the limit"])
def test_retention_by_size_keeps_the_limit(later, broken):
    story = Story(LARGE)
    for offset in range(1 + later):
        story.write(1.0, offset)
    story.start(2.0, 1)
    assert ("I42" in story.broken) is broken


def test_a_log_start_moves_backwards():
    story = Story(AGED)
    story.write(1.0, 0)
    story.start(5.0, 1)
    story.start(6.0, 0)
    assert story.broken["I42"] == "the start of t-0 was 1, and 0 at 6.100 s"


def test_an_old_record_remains():
    story = Story(AGED)
    story.write(1.0, 0)
    story.start(9.0, 0, final=True)
    assert story.broken["I42"] == "the record at 0 of t-0 still exists 3400 ms too long"


def test_a_reader_misses_a_record():
    story = Story(AGED)
    story.write(1.0, 0)
    story.write(1.0, 1)
    story.scan(2.0, 2, (1, b"k", b"v"))
    assert story.broken["I42"] == "a reader of all records of t-0 has not got the offset 0"


def test_compaction_removes_a_superseded_record():
    story = Story(COMPACTED)
    for offset in range(3):
        story.write(1.0 + offset, offset)
    story.scan(9.0, 3, (2, b"k", b"v"), final=True)
    assert not story.broken


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (((1, b"k", b"v"), (2, b"l", b"v")), "has not got the last record of the key j, at the offset 0"),
        (((0, b"j", b"v"), (1, b"k", b"v")), "has not got the last record of the log, at the offset 2"),
        (((0, b"j", b"v"), (1, b"k", b"w"), (2, b"l", b"v")), "got (b'k', b'w') at the offset 1, where"),
        (((1, b"k", b"v"), (0, b"j", b"v"), (2, b"l", b"v")), "got the offsets [1, 0, 2]"),
    ],
    ids=["last of a key", "last of the log", "changed", "order"],
)
def test_compaction_loses_a_record(found, text):
    story = Story(COMPACTED)
    story.write(1.0, 0, (b"j", b"v"), (b"k", b"v"), (b"l", b"v"))
    story.scan(9.0, 3, *found)
    assert text in story.broken["I43"]


def test_compaction_removes_a_young_record():
    story = Story(COMPACTED)
    story.write(1.0, 0)
    story.write(1.2, 1)
    story.scan(1.5, 2, (1, b"k", b"v"))
    assert "has not got the record at the offset 0, which is younger than 1000 ms" in story.broken["I43"]


def test_a_tombstone_is_removed_early():
    story = Story(COMPACTED)
    story.write(1.0, 0, (b"k", None))
    story.write(1.1, 1, (b"l", b"v"))
    story.scan(9.0, 2, (1, b"l", b"v"))
    assert not story.broken
    story.scan(4.0, 2, (1, b"l", b"v"))
    assert "has not got the tombstone at the offset 0, which is only 3100 ms old" in story.broken["I43"]


def test_a_deleted_key_is_back():
    story = Story(COMPACTED)
    story.write(1.0, 0)
    story.write(1.1, 1, (b"k", None))
    story.write(1.2, 2, (b"l", b"v"))
    story.scan(9.0, 3, (0, b"k", b"v"), (2, b"l", b"v"))
    assert "got the key k at the offset 0, although 1 supersedes it" in story.broken["I43"]


def test_a_later_record_of_unknown_offset_supersedes():
    story = Story(COMPACTED)
    story.write(1.0, 0)
    story.write(1.1, -1)
    story.write(1.2, 2, (b"l", b"v"))
    story.scan(9.0, 3, (2, b"l", b"v"))
    assert not story.broken


def test_a_superseded_record_remains_after_the_maximum_lag():
    story = Story(COMPACTED)
    for offset, at in enumerate((1.0, 1.5, 5.0)):
        story.write(at, offset)
    everything = [(offset, b"k", b"v") for offset in range(3)]
    story.scan(7.0, 3, *everything, final=True)
    assert not story.broken
    story.scan(20.0, 3, *everything, final=True)
    assert "got the record at the offset 0, which 1 supersedes, long after the maximum lag" in story.broken["I43"]


def test_an_offset_expires_after_its_retention_time():
    story = Story()
    story.renew(1.0)
    story.renew(61.0, expired=True)
    assert not story.broken


def test_an_offset_expires_early():
    story = Story()
    story.renew(1.0)
    story.renew(31.0, expired=True)
    assert story.broken["I44"] == "the committed offset g has expired after 30.100 s at most, not 60 s"


def test_a_throttled_client_waits():
    story = Story()
    story.limit(0.0, 100.0)
    story.use(1.0, 1_000, throttle_ms=8_000)
    story.use(9.0, 100)
    assert not story.broken


def test_a_throttled_connection_is_read():
    story = Story()
    story.limit(0.0, 100.0)
    story.use(1.0, 200, throttle_ms=1_000)
    story.use(1.2, 100)
    assert "was throttled for 1000 ms" in story.broken["I45"]


def test_a_client_exceeds_its_rate():
    story = Story()
    story.limit(0.0, 100.0)
    story.use(1.0, 1_000)
    story.use(2.0, 100)
    assert story.broken["I45"] == (
        "m1 used 1000 bytes until 1.100 s, but at 2.100 s its producer_byte_rate of 100 allows 410"
    )


def test_a_client_without_a_quota_is_not_limited():
    story = Story()
    story.use(1.0, 1_000)
    story.use(1.2, 1_000)
    story.limit(1.1, 100.0)
    assert not story.broken


def test_a_client_exceeds_its_mutations():
    story = Story()
    story.limit(0.0, 1.0, MUTATION)
    for at in (1.0, 1.2):
        story.use(at, 5, MUTATION)
    assert "m1 mutated 5 partitions from 1.000 s on, and 5 more at 1.300 s" in story.broken["I45"]


def test_the_scheme_reaches_what_it_checks():
    """The first seeds have each kind of deletion, expiry and throttling."""
    seen: dict[str, int] = {}
    for seed in range(6):
        world = World(SCHEMES["upkeep"](seed, 400))
        world.run()
        upkeep = world.history.upkeep
        reached = {
            "log start": any(start.offset for start in upkeep.starts),
            "compacted": any(
                len(scan.records) < scan.end - scan.start for scan in upkeep.scans if scan.place[0] == "compacted"
            ),
            "expired": any(each.expired for each in upkeep.renewals),
            "throttled": any(use.throttle_ms for use in upkeep.quota_uses),
        }
        seen = {name: seen.get(name, 0) + found for name, found in reached.items()}
    assert all(seen.values()), seen


def test_a_script_has_its_configurations():
    script = SCHEMES["upkeep"](3, 100)
    assert any("cleanup.policy=compact" in line for line in script.lines())
    assert asdict(script)["configs"]["compacted"]["cleanup.policy"] == "compact"
