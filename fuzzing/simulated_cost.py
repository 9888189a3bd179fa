"""Checks the work and the response of each request that the simulator's clients send against a bound.

    python fuzzing/simulated_cost.py [--seed N] [--seeds N] [--events N] [--scheme NAME] [--planted]

fuzzing/cost.py measures one request at a time, in states of known sizes. Here the same counted work (counted.py) is
measured while groups rebalance, transactions end, brokers restart and logs are compacted. A unit is paid for by a byte
of the request or the response, or by an object of the cluster: a partition, a member, a committed offset, ... The work
of the simulated clients and of the invariant checkers does not count.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import counted

counted.PLAIN = (*counted.PLAIN, "mockbroker.lab", "mockbroker.cli")
counted.install()

from kwire import APIS, encode  # noqa: E402 - imports from here on are counted
from mockbroker.base.effects import Ticket  # noqa: E402
from mockbroker.broker.broker import Broker  # noqa: E402
from mockbroker.lab.simulation.schemes import SCHEMES  # noqa: E402
from mockbroker.lab.simulation.shell import ObservedPump, Shell  # noqa: E402
from mockbroker.lab.simulation.world import World  # noqa: E402

BOUND = 50  # units of work per byte of the request and the response, and per object of the cluster
FIXED = 2_000  # units of work that a request may cost in addition
BYTES_BOUND = 30  # response bytes per byte of the request and object of the cluster, without records
FIXED_BYTES = 4_096  # response bytes in addition, such as the configurations of a new topic
SCHEMES_RUN = ("mix", "migration", "admin", "bytes", "upkeep")
PLANTED_SEEDS = 6  # in which slow code is searched: a run may have few requests of one API
# What is slow, module, old source, new source.
PLANTED = (
    (
        "all triples of partitions are compared",
        "mockbroker.broker.handlers.heartbeat",
        "    request, groups = call.request, broker.groups\n",
        "    request, groups = call.request, broker.groups\n    parts = broker.cluster.partitions()\n"
        "    sum(1 for a in parts for b in parts for c in parts if a is b)\n",
    ),
    (
        "each broker occurs a thousand times in a response",
        "mockbroker.broker.handlers.metadata",
        "            for node in cluster.nodes.values()\n        ],\n",
        "            for node in cluster.nodes.values()\n            for _ in range(1_000)\n        ],\n",
    ),
)
UNCOUNTED = ("begin_request", "proceed", "handled", "answered", "send", "unclaimed", "_noted")  # call the checkers
RECORDS = ("Fetch", "ShareFetch")  # their responses have at most the requested bytes of records, or one batch


@dataclass
class Highest:
    """The highest cost of the requests of one API.

    Attributes:
        count: Number of requests.
        work: Highest units per byte and object.
        response: Highest response bytes per byte and object.
    """

    count: int = 0
    work: float = 0.0
    response: float = 0.0


@dataclass
class Meter:
    """The costs of the requests of a run.

    Attributes:
        highest: Highest costs by name of the API.
        findings: Requests that exceed a bound.
    """

    highest: dict[str, Highest] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    _units: dict[Ticket, int] = field(default_factory=dict)
    _sizes: dict[Ticket, tuple[str, int, int]] = field(default_factory=dict)
    _known: set[tuple[str, int]] = field(default_factory=set)

    def work(self, ticket: Ticket, units: int) -> None:
        """Add the units of a slice of a request."""
        self._units[ticket] = self._units.get(ticket, 0) + units

    def answered(self, broker: Broker, call: Any, response: Any) -> None:
        """Remember the response to a request: its size pays for work, too."""
        request_size = len(encode(call.request, call.version))
        size = len(encode(response, call.version))
        name = APIS[call.ticket.api_key].name
        if (name, call.version) not in self._known:  # its handler is imported, its codec compiled
            self._known.add((name, call.version))
            return
        row = self.highest.setdefault(name, Highest())
        paid = request_size + objects(broker)
        row.count += 1
        if name not in RECORDS:
            row.response = max(row.response, (size - FIXED_BYTES) / paid)
            if size > FIXED_BYTES + BYTES_BOUND * paid:
                self.findings.append(f"{name} v{call.version}: {size} response bytes for {paid} bytes and objects")
        self._sizes[call.ticket] = name, call.version, paid + size

    def finish(self) -> None:
        """Check the work of all answered requests."""
        for ticket, (name, version, paid) in self._sizes.items():
            units, row = self._units.get(ticket, 0), self.highest[name]
            row.work = max(row.work, (units - FIXED) / paid)
            if units > FIXED + BOUND * paid:
                self.findings.append(f"{name} v{version}: {units} units of work for {paid} bytes and objects")
        self._sizes.clear()
        self._units.clear()


def objects(broker: Broker) -> int:
    """Return the number of objects of a cluster: topics, partitions, groups, members, offsets, transactions, ..."""
    groups, topics = broker.groups.values(), broker.cluster.topics.values()
    return (
        sum(1 + len(topic.partitions) for topic in topics)
        + sum(1 + len(group.members) + len(group.offsets.committed) for group in groups)
        + sum(1 + len(each.partitions) for each in broker.transactions.values())
        + len(broker.cluster.nodes)
    )


def uncounted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose work does not count."""

    def call(*args: Any, **named: Any) -> Any:
        before = counted.WORK.units
        try:
            return function(*args, **named)
        finally:
            counted.WORK.units = before

    return call


def install(meter: Meter) -> None:
    """Measure all requests of the runs from now on."""
    for name in UNCOUNTED:
        setattr(Shell, name, uncounted(getattr(Shell, name)))
    handle, resume, answered = ObservedPump.handle, ObservedPump.resume, Shell.answered

    def measured_handle(self: ObservedPump, connection: Any, call: Any, now: float) -> None:
        before = counted.WORK.units
        handle(self, connection, call, now)
        meter.work(call.ticket, counted.WORK.units - before)

    def measured_resume(self: ObservedPump, connection: Any, now: float) -> bool:
        before, ticket = counted.WORK.units, connection.work.ticket
        more = resume(self, connection, now)
        meter.work(ticket, counted.WORK.units - before)
        return more

    def noted_answer(self: Shell, call: Any, response: Any) -> None:
        before = counted.WORK.units
        meter.answered(self.broker, call, response)
        counted.WORK.units = before
        answered(self, call, response)

    ObservedPump.handle = measured_handle  # type: ignore[method-assign]
    ObservedPump.resume = measured_resume  # type: ignore[method-assign]
    Shell.answered = noted_answer  # type: ignore[method-assign]


def run(meter: Meter, scheme: str, seed: int, events: int) -> list[str]:
    """Run a seed, and return the requests that exceed a bound. Raises: Broken if an invariant is violated."""
    World(SCHEMES[scheme](seed, events)).run()
    meter.finish()
    findings, meter.findings = meter.findings, []
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=10, help="of each scheme")
    parser.add_argument("--events", type=int, default=400)
    parser.add_argument("--scheme", help="only this one")
    parser.add_argument("--planted", action="store_true", help="plant slow code, and check that each is found")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    meter = Meter()
    install(meter)
    findings: list[str] = []
    for scheme in [given.scheme] if given.scheme else SCHEMES_RUN:
        for seed in range(given.seed, given.seed + given.seeds):
            findings += [f"{scheme}, seed {seed}: {each}" for each in run(meter, scheme, seed, given.events)]
    for name, row in sorted(meter.highest.items(), key=lambda item: -item[1].work):
        sys.stdout.write(f"{name:<32} {row.count:>7} {row.work:>8.1f} {row.response:>8.1f}\n")
    sys.stdout.write("".join(f"{line}\n" for line in findings[:50]))
    sys.stdout.write(f"cost: {sum(row.count for row in meter.highest.values())} requests, {len(findings)} findings\n")
    missed = False
    for what, module, old, new in PLANTED if given.planted else ():
        counted.plant(module, old, new)
        seeds = range(given.seed, given.seed + PLANTED_SEEDS)
        found = any(run(meter, given.scheme or SCHEMES_RUN[0], seed, given.events) for seed in seeds)
        counted.plant(module, old, old)
        missed |= not found
        sys.stdout.write(f"planted: {what}: {'found' if found else 'MISSED'}\n")
    return 1 if findings or missed else 0


if __name__ == "__main__":
    sys.exit(main())
