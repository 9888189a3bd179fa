from __future__ import annotations

import json

from commands import kwire

from kwire.messages import MODULES


def test_table() -> None:
    lines = kwire("apis").stdout.splitlines()
    assert len(lines) == len(MODULES) + 1
    assert lines[0].split() == ["key", "name", "request", "response", "flexible"]
    assert ["11", "JoinGroup", "0-9", "0-9", "6+"] in [line.split() for line in lines]


def test_json() -> None:
    result = json.loads(kwire("apis", "--json").stdout)
    assert [row["key"] for row in result] == list(MODULES)
    assert result[0] == {
        "key": 0,
        "name": "Produce",
        "request_versions": "0-13",
        "response_versions": "0-13",
        "flexible_from": 9,
    }
