"""A finding, a detector and its thresholds as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from kwire.analysis import tables
from kwire.analysis.columns import Row
from kwire.analysis.events import CLASSIC
from kwire.lazy_dataclass import dataclass

CRITICAL, WARNING, NOTICE = "critical", "warning", "notice"
SEVERITIES = (CRITICAL, WARNING, NOTICE)  # worst first

GROUP, CLIENT, TRANSACTION = "group", "client", "transaction"  # what a detector looks at

MOST_EVIDENCE = 20  # references to rows in one finding

Limits = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A setting of a detector.

    Attributes:
        name: name that is unique within the detector, such as ``window_ms``.
        default: value that is used if the user sets none.
        meaning: description of the limited value, with the unit.
    """

    name: str
    default: float
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem that a detector has recognised in a capture.

    Attributes:
        severity: CRITICAL, WARNING or NOTICE.
        begin: first evidence, in microseconds since 1970.
        end: last evidence, in microseconds since 1970.
        sentence: description of the problem, one sentence.
        cost: number by which findings of the same severity are sorted, the largest first: the duration in ms, or a
            count.
        evidence: references to rows of tables, from ``reference``; the first MOST_EVIDENCE are enough.
        evidence_count: number of all references; None if ``evidence`` has all.
        client_id: client id of the client with the problem; None if the finding is not about one client.
        member_id: member id of the member with the problem; None if the finding is not about one member.
        topic: topic of the partition with the problem; None if the finding is not about a topic.
        partition: number of the partition with the problem; None if the finding is not about one partition.
    """

    severity: str
    begin: int
    end: int
    sentence: str
    cost: float = 0.0
    evidence: Sequence[str] = ()
    evidence_count: int | None = None
    client_id: str | None = None
    member_id: str | None = None
    topic: str | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Detector:
    """A detector of one kind of problem: a function without state, with thresholds.

    Attributes:
        name: value of the column ``finding``.
        of: subject of the findings: GROUP, CLIENT or TRANSACTION.
        about: text for docs/findings.md that describes the problem.
        detect: function that yields findings. The first argument is a GroupView, ClientView or TransactionView,
            depending on ``of``. The second argument has the values of the thresholds by name.
        thresholds: settings of the detector.
        sum_up: function with the same arguments that returns the summary of all rows (``summaries``), from which
            ``detect`` derives its findings; None if ``of`` is GROUP (``evidence``).
    """

    name: str
    of: str
    about: str
    detect: Callable[[Any, Limits], Iterable[Finding]]
    thresholds: tuple[Threshold, ...] = field(default=())
    sum_up: Callable[[Any, Limits], Any] | None = None

    def limits(self, settings: Mapping[str, float]) -> dict[str, float]:
        """Return the value of each threshold, by name of the threshold.

        ``settings``: values that replace defaults. A key has the form ``detector.threshold``.
        """
        return {one.name: settings.get(f"{self.name}.{one.name}", one.default) for one in self.thresholds}


def reference(table: str, **values: Any) -> str:
    """Return a reference to rows of a table, as text of the form ``table column=value column=value``.

    Args:
        table: name of the table.
        values: values by column name that the rows have. Columns with the value None are left out.
    """
    return " ".join([table, *(f"{name}={value}" for name, value in values.items() if value is not None)])


def rows(
    found: Iterable[tuple[Detector, Finding]], capture_id: str, group_id: str | None, cluster: str | None
) -> Iterator[Row]:
    """Yield findings as rows of the table ``findings``.

    Args:
        found: findings with their detectors.
        capture_id: id of the capture.
        group_id: group with the problem; None for findings about clients and transactions.
        cluster: cluster of the group or the client; None if unknown.
    """
    for detector, one in found:
        yield tables.FINDINGS.row(
            capture_id=capture_id,
            rank=SEVERITIES.index(one.severity) + 1,
            severity=one.severity,
            finding=detector.name,
            group_id=group_id,
            cluster=cluster,
            client_id=one.client_id,
            member_id=one.member_id,
            topic=one.topic,
            partition=one.partition,
            begin_ts=one.begin,
            end_ts=one.end,
            cost=float(one.cost),
            sentence=one.sentence,
            evidence=list(one.evidence[:MOST_EVIDENCE]),
            evidence_count=len(one.evidence) if one.evidence_count is None else one.evidence_count,
        )


def generation_name(row: Row) -> str:
    """Return the name of the new generation of a rebalance: ``generation 3``, or ``epoch 3`` in a KIP-848 group.

    ``row``: row of ``rebalances``.
    """
    return f"{'generation' if row['protocol'] == CLASSIC else 'epoch'} {row['to_generation']}"


def seconds(us: float) -> str:
    """Return a duration in microseconds as text in a suitable unit: ``35 ms``, ``2.9 s`` or ``12 min``."""
    if us < 1_000_000:
        return f"{us / 1000:.0f} ms"
    return f"{us / 1e6:.1f} s" if us < 600_000_000 else f"{us / 60e6:.0f} min"


def quoted(name: str | None) -> str:
    """Return an id, such as a client id or a group id, in backquotes; ``a client without id`` if the id is None or
    empty.
    """
    return f"`{name}`" if name else "a client without id"
