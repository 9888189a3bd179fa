from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from golden import ROOT
from tools.handmade_calls import two_members

from kwire.analysis.live import LiveState
from kwire.analysis.metrics import HISTOGRAM, METRICS, text

NAME = re.compile(r"\b(?:kafka|kwire)_[a-z_]+")
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? ([0-9.e+-]+|\+Inf)')
DASHBOARD = ROOT / "docs" / "grafana" / "groups.json"


def state() -> LiveState:
    made = LiveState()
    log = two_members()
    log.commit("a", 750, 3, 0, 5)
    for call in log.calls:
        made.note(call)
    return made


def samples(lines: str) -> dict[str, str]:
    """Return values by name with labels. All lines must be valid."""
    made = {}
    for line in lines.splitlines():
        if not line.startswith("#"):
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            made[f"{match[1]}{{{match[2]}}}" if match[2] else match[1]] = match[3]
    return made


def test_values() -> None:
    made = samples(text(state()))
    assert made['kafka_consumergroup_members{consumergroup="billing"}'] == "1"
    assert made['kafka_consumergroup_current_offset{consumergroup="billing",topic="tea",partition="0"}'] == "5"
    assert made['kafka_consumergroup_current_offset_sum{consumergroup="billing",topic="tea"}'] == "5"
    assert made['kwire_group_rebalances_total{consumergroup="billing"}'] == "2"
    assert made['kwire_errors_total{api="Heartbeat",error="REBALANCE_IN_PROGRESS"}'] == "2"
    assert (
        made['kwire_requests_total{api="JoinGroup"}'] == made['kwire_request_duration_seconds_count{api="JoinGroup"}']
    )


def test_sums_have_a_topic_as_in_kafka_exporter() -> None:
    made = state()
    group = made.groups["billing"]
    group.commits |= {("tea", 1): (7, made.now_us), ("milk", 0): (3, made.now_us), ("ink", 0): (4, made.now_us)}
    made.ends |= {("tea", 0): (9, made.now_us), ("tea", 1): (10, made.now_us), ("milk", 0): (3, made.now_us)}
    lines = samples(text(made))
    sums = {name: value for name, value in lines.items() if "_sum{consumergroup" in name}
    assert sums == {
        'kafka_consumergroup_current_offset_sum{consumergroup="billing",topic="ink"}': "4",
        'kafka_consumergroup_current_offset_sum{consumergroup="billing",topic="milk"}': "3",
        'kafka_consumergroup_current_offset_sum{consumergroup="billing",topic="tea"}': "12",
        'kafka_consumergroup_lag_sum{consumergroup="billing",topic="milk"}': "0",
        'kafka_consumergroup_lag_sum{consumergroup="billing",topic="tea"}': "7",
    }


def test_histogram_is_cumulative() -> None:
    made = samples(text(state()))
    joins = [
        int(value) for name, value in made.items() if name.startswith('kwire_request_duration_seconds_bucket{api="J')
    ]
    assert joins == sorted(joins)
    assert joins[-1] == 4


def test_responses_without_requests_are_not_counted() -> None:
    made = LiveState()
    made.note(replace(two_members().calls[0], api_key=None, request=None, request_us=None))
    assert "unknown" not in text(made)


def test_names_are_escaped() -> None:
    made = state()
    made.groups['a"b\\c\nd'] = made.groups.pop("billing")
    assert 'kafka_consumergroup_members{consumergroup="a\\"b\\\\c\\nd"}' in samples(text(made))


def expressions(value: Any) -> list[str]:
    if isinstance(value, list):
        return [one for each in value for one in expressions(each)]
    if not isinstance(value, dict):
        return []
    own = [value[key] for key in ("expr", "query") if isinstance(value.get(key), str)]
    return own + [one for each in value.values() for one in expressions(each)]


def test_dashboard_uses_metrics_and_labels_that_exist() -> None:
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    found = expressions(dashboard)
    known = set(METRICS) | {f"{name}_bucket" for name, (kind, *_) in METRICS.items() if kind == HISTOGRAM}
    used = {name for expression in found for name in NAME.findall(expression)}
    assert used <= known
    assert len(used) >= 10
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            (name,) = NAME.findall(target["expr"])
            labels = {*METRICS[name.removesuffix("_bucket")][2], "le"}
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels
            assert set(re.findall(r"{(\w+)=", target["expr"])) <= labels


def test_page_lists_every_metric() -> None:
    page = (ROOT / "docs" / "live.md").read_text("utf-8")
    rows = {
        match[1]: (match[2], tuple(filter(None, match[3].split(", "))))
        for match in re.finditer(r"^\| `(\w+)` \| (\w+) \| ?([\w, ]*?) ?\|", page, re.MULTILINE)
    }
    assert rows == {name: (kind, labels) for name, (kind, _, labels) in METRICS.items()}
