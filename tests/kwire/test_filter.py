"""Filters on columns."""

from __future__ import annotations

import pytest

from kwire.cli.capture import columns
from kwire.filter import FilterError, parse

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
    ("body.members[0].member_id is None", True),
    ("body.topics[0]._topic_name == 't'", False),
    ("body.protocols[0]._metadata.topics[0] == 't'", False),
    ("error_code == null", True),
    ("latency_ms != null and error_code is null", True),
    ("body.group_id != null", True),
    ("body.validate_only == true", False),
    ("body.generation_id < 5", False),
    ("api_name > 'A'", True),
    ("\n api_name == 'JoinGroup'\n  and latency_ms > 1 ", True),
    ("client == 'x'", False),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_filters(text: str, expected: bool) -> None:
    check, _ = parse(text, columns())
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
NEVER = [  # filter, error, the marked character
    ("api_name == 'JoinGrup'", "api_name is never 'JoinGrup'; did you mean JoinGroup?", 12),
    ("api_name in ['Fetch', 'joingroup']", "api_name is never 'joingroup'; did you mean JoinGroup?", 22),
    ("api_name != 'Nonsense'", "api_name is never 'Nonsense', at", 12),
    ("direction == 'up'", "direction is never 'up'; the values are request, response", 13),
    ("reason == 'lost'", "reason is never 'lost'; the values are request_not_seen", 10),
    ("latency_ms > '10'", "latency_ms is a number, but is compared with text", 13),
    ("10 < client", "client is text, but is compared with a number", 0),
    ("error_code == true", "error_code is a number, but is compared with true or false", 14),
    ("size > 1 and latency_ms > null", "null cannot be ordered", 26),
    ("5 in error_code", "error_code is a number; `in` needs a list or text", 5),
    ("api_name < 5", "api_name is text", 11),
    ("latency > 1", "unknown column latency; did you mean latency_ms?", 0),
    ("nonsense > 1", "unknown column nonsense; the columns are time, file", 0),
    ("size == = 1", "invalid syntax", 8),
    ("size > 1 and body.grup_id == 'g'", "no message has a field grup_id; did you mean group_id?", 13),
    ("body.topics[0].nam is null", "no message has a field topics.nam; did you mean name?", 0),
    ("body.topics.name == 't'", "topics is an array: give the index of an element, such as topics[0].name", 0),
    ("client == 'ä' and size.x", "has no fields", 18),
]


@pytest.mark.parametrize(("text", "said", "place"), NEVER)
def test_filter_that_never_matches_is_refused(text: str, said: str, place: int) -> None:
    with pytest.raises(FilterError) as raised:
        parse(text, columns())
    reason, shown, mark = str(raised.value).split("\n")
    assert said in reason
    assert reason.endswith(f"at character {place + 1}")
    assert (shown, mark) == (f"  {text}", "  " + " " * place + "^")


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises(FilterError):
        parse(text, columns())


def test_parse_returns_the_used_columns() -> None:
    assert parse("body.group_id == 1 or size > 2", columns())[1] == {"body", "size"}
