"""The OpenAPI document, and the table of routes that it is made from."""

from __future__ import annotations

import re

from golden import ROOT
from openapi_spec_validator import OpenAPIV31SpecValidator
from tools.control_api import control_api

from mockbroker.control.control import CAPABILITIES
from mockbroker.control.openapi import status_codes
from mockbroker.control.table import ROUTES, openapi


async def test_the_served_document_is_openapi_3_1() -> None:
    async with control_api() as api:
        document = await api.get("/openapi.json")
    assert document["openapi"] == "3.1.0"
    assert not list(OpenAPIV31SpecValidator(document).iter_errors())


def test_the_document_has_every_route() -> None:
    documented = {(method.upper(), path) for path, methods in openapi()["paths"].items() for method in methods}
    assert documented == {(route.method, route.path) for route in ROUTES}
    assert len(documented) == len(ROUTES)


def test_operation_ids_are_unique() -> None:
    ids = [each["operationId"] for methods in openapi()["paths"].values() for each in methods.values()]
    assert len(set(ids)) == len(ids)


def test_every_capability_belongs_to_a_route() -> None:
    assert {route.capability for route in ROUTES} - {""} == set(CAPABILITIES)


def test_status_codes_of_a_route() -> None:
    reset = next(route for route in ROUTES if route.path == "/v1/reset")
    assert status_codes(reset) == [400, 401, 403, 408, 409, 413, 415, 421, 422, 503]


def test_the_documented_table_has_every_route() -> None:
    text = (ROOT / "docs" / "control-api.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| `[A-Z]+ /", line)]
    assert rows == [f"| `{route.method} {route.path}` | {route.summary} |" for route in ROUTES]
