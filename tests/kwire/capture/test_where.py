"""Filters on columns."""

from __future__ import annotations

import pytest

from kwire.capture.rows import COLUMNS
from kwire.capture.where import FilterError, parse

ROW = {
    "api_name": "JoinGroup",
    "latency_ms": 12.5,
    "error_code": None,
    "body": {"group_id": "g", "topics": [{"name": "t"}]},
}
CASES = [
    ("api_name == 'JoinGroup' and latency_ms > 10", True),
    ("10 < latency_ms <= 12.5", True),
    ("error_code > 0", False),
    ("not error_code > 0", True),
    ("error_code is None", True),
    ("error_code != -1", True),
    ("api_name in ['JoinGroup', 'SyncGroup']", True),
    ("'Join' in api_name or latency_ms", True),
    ("body.group_id == 'g'", True),
    ("body.topics[0].name == 't'", True),
    ("body.topics[5].name == 't'", False),
    ("body.nothing.at.all is None", True),
    ("api_name < 5", False),
    ("5 in error_code", False),
    ("client == 'x'", False),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_filters(text: str, expected: bool) -> None:
    check, _ = parse(text, COLUMNS)
    assert check(ROW) is expected


REFUSED = [
    "latency > 1",
    "__import__('os')",
    "api_name.upper() == 'X'",
    "api_name.x",
    "client[0]",
    "1 +",
    "lambda: 1",
    "[x for x in body]",
    "2 ** 9",
    "f'{body}'",
    "",
    "a" * 20_000,
    "(" * 500,
    "1 == 1 and " * 600 + "1",
    "body.__class__()",
]


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises(FilterError):
        parse(text, COLUMNS)


def test_columns_that_are_looked_at() -> None:
    assert parse("body.x == 1 or size > 2", COLUMNS)[1] == {"body", "size"}
