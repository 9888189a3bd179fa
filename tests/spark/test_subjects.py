"""Findings about clients and transactional ids do not depend on where a stream is divided."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from effort import amount

from kwire.analysis.clusters import Clusters
from kwire.analysis.findings import fold
from kwire.analysis.findings.observations import (
    ABORT,
    CLOSED,
    COMMIT,
    FENCED,
    INIT,
    LAST,
    WINDOW_US,
    WORK,
    Connected,
    Step,
    Tally,
)
from kwire.analysis.tables import FINDINGS
from kwire.spark import plain
from kwire.spark.subjects import Calls, LateRowError, Subject

CLUSTERS = Clusters([])
CLIENT = ("b:1", "app", "10.0.0.1")
SECOND = 1_000_000
SETTINGS = {
    "error-rate.count": 2,
    "error-rate.share": 0.01,
    "retry-loop.count": 3,
    "retry-loop.per_second": 0.2,
    "metadata-storm.per_second": 0.4,
    "reconnect-loop.count": 2,
    "throttled-client.throttle_ms": 1,
    "hanging-transaction.share": 0.1,
}
SETTLED_US = 30 * SECOND
NO_HANGING_TRANSACTION = {67, 123}  # seeds whose steps have none


def tally(number: int, api: int, calls: int, wait_us: int, random: Random) -> Tally:
    """Return the calls of one window; the last response arrives ``wait_us`` after the last request."""
    window = number * WINDOW_US
    first = window + random.randrange(SECOND)
    last = window + random.randrange(2 * SECOND, WINDOW_US) + wait_us
    made = Tally(
        random.choice("cd"), "b:1", "app", "10.0.0.1", window, api, calls, random.choice([0, 0, 0, 5]), first, last
    )
    for code in random.sample([5, 6, 27], random.choice([0, 0, 1, 2])):  # 27: REBALANCE_IN_PROGRESS
        count, begin = random.randrange(1, calls + 1), random.randrange(first, last)
        made.errors[code] = [count, begin, random.randrange(begin, last + 1)]
    return made


def connected(number: int, begin: int, random: Random) -> Connected:
    end = begin + random.choice([10_000, 500_000, 5 * SECOND])
    return Connected(f"c{number}", "b:1", "app", "10.0.0.1", begin, end, True, random.choice(["fin", "fin", None]))


def calls(random: Random) -> list[Any]:
    rows: list[Any] = []
    for number in range(100, 150):
        for api in random.choices([1, 3, 8], k=random.randrange(5)):
            wait = random.choice([0, 1000, SECOND, 15 * SECOND])
            rows.append(tally(number, api, random.randrange(1, 9), wait, random))
    rows += [connected(n, random.randrange(100, 150) * WINDOW_US + n, random) for n in range(40)]
    return rows


def divided(rows: list[Any], end: Any, random: Random) -> list[list[Any]]:
    """Return rows in the order of their ends, as a stream reads them, in batches of random sizes."""
    ordered, batches = sorted(rows, key=end), []
    while ordered:
        size = random.randrange(1, 20)
        batches.append(ordered[:size])
        ordered = ordered[size:]
    return batches


def split(rows: list[Any]) -> Calls:
    return Calls([r for r in rows if isinstance(r, Tally)], [r for r in rows if isinstance(r, Connected)])


@pytest.mark.parametrize("seed", range(amount(30, 300)))
def test_findings_about_a_client(seed: int) -> None:
    random, seen, state = Random(seed), list[Any](), Subject()
    removed = 0
    for batch in divided(calls(random), lambda row: row.last_ts, random):
        seen += batch
        state = plain.loads(plain.dumps(state))
        try:
            view = state.add_calls(CLIENT, split(batch), Calls(), SETTINGS, SETTLED_US)
        except LateRowError:
            state = Subject()
            view = state.add_calls(CLIENT, split(seen), Calls(), SETTINGS, SETTLED_US)
        removed = max(removed, len(split(seen).tallies) - len(state.tallies))
        expected = fold.of_clients("c", *split(seen), CLUSTERS, SETTINGS)
        assert FINDINGS.sorted(list(fold.of_view("c", view, "b:1", SETTINGS))) == expected
    assert removed > 30
    assert {row["finding"] for row in expected} >= {"error-rate", "retry-loop", "metadata-storm", "throttled-client"}


def test_late_calls_and_connections_are_noticed() -> None:
    random, state = Random(1), Subject()
    state.add_calls(CLIENT, Calls([tally(100, 3, 5, 0, random), tally(110, 3, 5, 0, random)]), Calls(), {}, SETTLED_US)
    assert state.until == 107 * WINDOW_US
    early = connected(1, 100 * WINDOW_US, random)
    early.closed, early.last_ts = "fin", early.first_ts + 5 * SECOND
    state.add_calls(CLIENT, Calls((), [early]), Calls(), {}, SETTLED_US)  # a long connection: no detector reads it
    early.last_ts = early.first_ts + 1
    for late in (Calls((), [early]), Calls([tally(106, 1, 1, 0, random)])):
        for rows in ((late, Calls()), (Calls(), late)):
            with pytest.raises(LateRowError):
                state.add_calls(CLIENT, *rows, {}, SETTLED_US)


def test_pending_calls_are_not_removed() -> None:
    """A request without a response is kept, because the response changes the counts of its window."""
    random, state = Random(1), Subject()
    waiting = Calls([tally(101, 3, 1, 0, random)])
    state.add_calls(CLIENT, Calls([tally(100, 3, 5, 0, random), tally(150, 3, 5, 0, random)]), waiting, {}, SETTLED_US)
    assert state.until == 101 * WINDOW_US


def steps(random: Random) -> list[Step]:
    made, producers = [], [("p", "c1"), ("q", "c2")]
    kinds = [INIT, WORK, WORK, WORK, COMMIT, ABORT, FENCED, CLOSED, LAST]
    for number in range(150):
        client, connection = random.choice(producers)
        kind = random.choice(kinds)
        ts = random.randrange(100) * SECOND  # so some have the same time
        timeout = random.choice([None, 10_000, 60_000]) if kind == INIT else None
        number = -1 if kind in (CLOSED, LAST) else number
        made.append(Step(ts, connection, "b:1", client, "10.0.0.1", "pay", 7, 1, kind, timeout, 0, number))
    return made


@pytest.mark.parametrize("seed", range(amount(30, 300)))
def test_findings_about_a_transactional_id(seed: int) -> None:
    """The end of a connection may arrive late, long after its last packet."""
    random, seen, state = Random(seed), list[Step](), Subject()
    rows = steps(random)
    ends = {id(row): row.ts + random.choice([0, 50 * SECOND]) * (row.kind in (CLOSED, LAST)) for row in rows}
    pending = [row for row in steps(random) if row.kind == LAST][:3]
    times = sorted({*ends.values()})
    while times:
        size = random.randrange(1, 10)
        now, times = set(times[:size]), times[size:]
        batch = [row for row in rows if ends[id(row)] in now]
        seen += batch
        state = plain.loads(plain.dumps(state))
        view = state.add_steps("pay", batch, pending, SETTINGS, SETTLED_US)
        expected = fold.of_transactions("c", [*seen, *pending], CLUSTERS, SETTINGS)
        assert FINDINGS.sorted(list(fold.of_view("c", view, "b:1", SETTINGS))) == expected
    assert len(state.steps) < 80
    found = {"zombie-producer"} if seed in NO_HANGING_TRANSACTION else {"zombie-producer", "hanging-transaction"}
    assert {row["finding"] for row in expected} == found


def test_producer_whose_last_packet_is_its_request() -> None:
    """The request and the end of its connection have the same time."""
    who = "c1", "b:1", "p", "10.0.0.1", "pay", 7, 1
    rows = [Step(SECOND, *who, WORK, None, 0, 4), Step(SECOND, *who, CLOSED)]
    view = Subject().add_steps("pay", rows, [], SETTINGS, SETTLED_US)
    (found,) = fold.of_view("c", view, "b:1", SETTINGS)
    assert "was still open when its producer was gone" in found["sentence"]


def test_late_steps_are_noticed() -> None:
    random, state = Random(1), Subject()
    rows = [row for row in steps(random) if row.kind == WORK]
    state.add_steps("pay", rows, [], {}, SETTLED_US)
    early = min(rows, key=lambda row: row.ts)
    for new, pending in (([early], []), ([], [early])):
        with pytest.raises(LateRowError):
            state.add_steps("pay", new, pending, {}, SETTLED_US)
