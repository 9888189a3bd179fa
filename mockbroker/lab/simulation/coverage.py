"""Coverage of the simulation: which combinations of event, state (of a group or transaction) and preceding fault
occurred.

A cell is a combination of a state, an event and a fault. The event is a request, or a crash of the process. The state
is the state of the request's group or transactional id before the event. The fault is the most recent fault. It is
forgotten at the RECENT-th request after it began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kwire import APIS
from mockbroker.base.effects import Call
from mockbroker.broker.broker import Broker
from mockbroker.lab.simulation.script import Script
from mockbroker.lab.simulation.watching import Watcher

RECENT = 40  # the last fault is forgotten at the RECENT-th request after it
NO_FAULT = "no fault"
NAMES: Mapping[int, str] = {key: api.name for key, api in APIS.items()}


class Cell(NamedTuple):
    """A cell of the coverage table.

    Attributes:
        state: type and state of a group, such as ``classic Stable``, or state of a transaction: ``transaction
            Ongoing``.
        event: name of an API, or ``crash``.
        fault: kind of the last fault, or NO_FAULT.
    """

    state: str
    event: str
    fault: str


class Coverage(Watcher):
    """The cells that runs have reached. One object can be used for several runs.

    Attributes:
        cells: cell -> number of times that the cell was reached.
        seeds: cell -> number of runs that reached the cell.
        points: buggify point -> number of times that the point changed the behaviour of the broker.
    """

    def __init__(self) -> None:
        self.cells: Counter[Cell] = Counter()
        self.seeds: Counter[Cell] = Counter()
        self.points: Counter[str] = Counter()
        self._run: Counter[Cell] = Counter()
        self._fault = NO_FAULT
        self._left = 0  # requests until the last fault is forgotten

    def began(self, fault: str) -> None:
        """Record that a fault has begun. ``fault``: kind of the fault."""
        self._fault, self._left = fault, RECENT

    def buggified(self, point: str) -> None:
        """Record that a buggify point has changed something. ``point``: name of the point."""
        self.points[point] += 1

    def end_run(self) -> None:
        """Count the cells that the finished run has reached."""
        self.cells += self._run
        self.seeds.update(self._run.keys())
        self._run.clear()
        self._fault, self._left = NO_FAULT, 0

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        if self._left:
            self._left -= 1
            if not self._left:
                self._fault = NO_FAULT
        event = NAMES[call.ticket.api_key]
        if group_id := getattr(call.request, "group_id", None):
            group = broker.groups.get(group_id)
            state = "no group" if group is None else f"{group.type_name} {group.state_name}"
            self._run[Cell(state, event, self._fault)] += 1
        if (transactional_id := _transactional_id(call.request)) is not None:
            transaction = broker.transactions.get(transactional_id)
            state = "none" if transaction is None else transaction.state.value
            self._run[Cell(f"transaction {state}", event, self._fault)] += 1

    def crashed(self, broker: Broker, now: float) -> None:
        for group in broker.groups.values():
            self._run[Cell(f"{group.type_name} {group.state_name}", "crash", self._fault)] += 1
        for transaction in broker.transactions.values():
            self._run[Cell(f"transaction {transaction.state.value}", "crash", self._fault)] += 1

    # --- rare cells ---

    def novelty(self, script: Script) -> int:
        """Return the number of cells that no run has reached yet and that a script may reach.

        A fault of the script is assumed to reach every combination of state and event that was reached with any fault.
        """
        pairs = {(cell.state, cell.event) for cell in self.cells}
        reached = Counter(cell.fault for cell in self.cells)
        return sum(len(pairs) - reached[fault] for fault in {fault.kind for fault in script.faults})

    def steer(self, scripts: Iterable[Script]) -> Script:
        """Return the script that may reach the most new cells (see ``novelty``).

        Of several scripts with the same number of new cells, return the first.
        """
        return max(scripts, key=self.novelty)

    # --- the report ---

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each combination of state and event, with the keys state, event, count and faults.

        ``count`` is the number of times that the combination was reached; ``faults`` is this number by kind of the last
        fault.
        """
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for cell, count in sorted(self.cells.items()):
            row = rows.setdefault(cell[:2], {"state": cell.state, "event": cell.event, "count": 0, "faults": {}})
            row["count"] += count
            row["faults"][cell.fault] = count
        return list(rows.values())

    def lines(self) -> list[str]:
        """Return the table as lines of text, then a line for each buggify point, and a last line with totals."""
        rows = self.rows()
        width = max((len(f"{row['state']}  {row['event']}") for row in rows), default=0) + 2
        table = [
            f"{row['state']}  {row['event']}".ljust(width) + f"{row['count']:>9,}  {len(row['faults']):>2} faults"
            for row in rows
        ]
        once = sum(seeds == 1 for seeds in self.seeds.values())
        table += [f"buggify point {name}: {count:,} times" for name, count in sorted(self.points.items())]
        return [*table, f"{len(self.cells):,} cells (state, event, fault), {once:,} of them in one seed only"]


def _transactional_id(request: Any) -> str | None:
    """Return the transactional id of a request; None if the request has none or an empty one."""
    name = getattr(request, "transactional_id", None) or getattr(request, "v3_and_below_transactional_id", None)
    return str(name) if name else None
