"""docs/errors.md is what tools/errors_page.py makes, and every row of its data is in use."""

from __future__ import annotations

from functools import cache

import errors_page
import pytest
from errors_page import conditions, data, documented, named_by_handler, page, recorded
from golden import ROOT

from kwire import APIS, ErrorCode
from kwire.apikeys import ApiKey
from mockbroker.broker.handlers import HANDLERS

made = cache(page)  # not at import: every process of pytest-xdist imports this file
errors_recorded = cache(recorded)


def test_page_is_current() -> None:
    assert (ROOT / "docs" / "errors.md").read_text("utf-8") == made(), "make docs"


def test_errors_of_apis_are_current() -> None:
    assert (ROOT / "mockbroker" / "faults" / "api_errors.tsv").read_text("utf-8") == data(), "make docs"


def test_documented_errors_are_of_served_apis() -> None:
    assert set(documented()) <= {APIS[key].name for key in HANDLERS}


def test_conditions_are_of_served_apis() -> None:
    assert {api for api, _ in conditions()} - {""} <= {APIS[key].name for key in HANDLERS}


@pytest.mark.parametrize("condition", [text for text in conditions().values() if text])
def test_condition_is_in_the_page(condition: str) -> None:
    assert f" {condition} |" in made()


def test_recorded_error_is_marked() -> None:
    assert ErrorCode.MEMBER_ID_REQUIRED in errors_recorded()["JoinGroup"]
    (row,) = {line for line in made().splitlines() if line.startswith("| MEMBER_ID_REQUIRED |")}
    assert row.startswith("| MEMBER_ID_REQUIRED | 79 |  | yes | ")


def test_errors_of_a_handler_are_those_it_names() -> None:
    assert named_by_handler(ApiKey.HEARTBEAT) >= {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert ErrorCode.ELECTION_NOT_NEEDED in named_by_handler(ApiKey.ELECT_LEADERS)


def test_error_without_a_condition_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors_page, "conditions", dict)
    with pytest.raises(ValueError, match=r"^no condition of \w+ for \w+: add a row .* to tools/error_conditions\.tsv$"):
        errors_page.page()
