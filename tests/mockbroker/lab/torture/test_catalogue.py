"""The catalogue: every case has a step and a description, and changes something."""

from __future__ import annotations

from collections import Counter

from kwire import APIS
from mockbroker import run_cluster
from mockbroker.lab.torture.case import CONNECT, EVERY, TLS, Case
from mockbroker.lab.torture.cases.frames import STEPS
from mockbroker.lab.torture.catalogue import CASES, NAMED, PAIRS, select, unmatched

NAMES = {api.name for api in APIS.values()}


def test_there_are_more_than_eighty_named_cases_and_twelve_steps() -> None:
    assert len(NAMED) > 80
    assert len(STEPS) == 12
    assert Counter(case.name for case in (*NAMED, *PAIRS)).most_common(1)[0][1] == 1
    assert list(CASES.values()) == [*NAMED, *PAIRS]


def is_complete(case: Case) -> bool:
    return (
        case.step in {*NAMES, CONNECT, TLS, EVERY}
        and sum(map(bool, (case.rules or case.change, case.frames, case.flight, case.certificate))) == 1
        and case.description[-1:] not in ("", ".")
        and (not case.published or case.published.startswith("https://"))
    )


def test_every_case_is_complete() -> None:
    assert [name for name, case in CASES.items() if not is_complete(case)] == []


def test_all_rules_are_accepted() -> None:
    with run_cluster(topics={"torture": 1}) as cluster:
        for case in CASES.values():
            for rule in case.rules:
                state = cluster.faults.add(seed=1, **rule).state  # type: ignore[misc]
                assert state.warnings == () or "error" in rule, case.name
            cluster.faults.remove()


def test_cases_are_selected_by_patterns_and_steps() -> None:
    assert [case.name for case in select(["HTTP"])] == ["HTTP"]
    assert {case.step for case in select(["*half*"])} >= {"Metadata", "JoinGroup"}
    assert {case.step for case in select(["*"], ["SyncGroup"])} == {"SyncGroup"}
    assert select(["nothing"]) == []
    assert [unmatched(names) for names in ([], ["HTTP", "*half*"], ["HTTP", "nothing"])] == [None, None, "nothing"]
