"""docs/errors.md is what tools/errors_page.py makes, and every row of its data is in use."""

from __future__ import annotations

import pytest
from errors_page import conditions, named_by_handler, page, recorded
from golden import ROOT

from kwire import APIS, ErrorCode
from kwire.apikeys import ApiKey
from mockbroker.broker.handlers import HANDLERS

PAGE = page()


def test_page_is_current() -> None:
    assert (ROOT / "docs" / "errors.md").read_text("utf-8") == PAGE, "make docs"


def test_conditions_are_of_served_apis() -> None:
    assert {api for api, _ in conditions()} - {""} <= {APIS[key].name for key in HANDLERS}


@pytest.mark.parametrize("condition", [text for text in conditions().values() if text])
def test_condition_is_in_the_page(condition: str) -> None:
    assert f" {condition} |" in PAGE


def test_recorded_error_is_marked() -> None:
    assert ErrorCode.MEMBER_ID_REQUIRED in recorded()["JoinGroup"]
    (row,) = {line for line in PAGE.splitlines() if line.startswith("| MEMBER_ID_REQUIRED |")}
    assert row.startswith("| MEMBER_ID_REQUIRED | 79 |  | yes | ")


def test_errors_of_a_handler_are_those_it_names() -> None:
    assert named_by_handler(ApiKey.HEARTBEAT) >= {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert ErrorCode.ELECTION_NOT_NEEDED in named_by_handler(ApiKey.ELECT_LEADERS)
