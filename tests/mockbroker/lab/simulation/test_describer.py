"""The client that reads the state of the cluster, and the requests that no client of the simulator sends."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from golden import ROOT

from kwire import APIS
from kwire.schema import schema_of
from mockbroker.base.effects import Call
from mockbroker.broker.handlers import HANDLERS
from mockbroker.lab.simulation.clients.describer import REQUESTS
from mockbroker.lab.simulation.run import run
from mockbroker.lab.simulation.schemes import mix
from mockbroker.lab.simulation.script import MemberScript
from mockbroker.lab.simulation.shell import Shell

SIMULATION = ROOT / "mockbroker/lab/simulation"


def test_all_reading_requests_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    answered: set[int] = set()
    real = Shell.answered

    def seen(self: Shell, call: Call[Any], response: Any) -> None:
        answered.add(call.ticket.api_key)
        real(self, call, response)

    monkeypatch.setattr(Shell, "answered", seen)
    describer = MemberScript(number=0, kind="describer", group="", topics=("t0",), commit=0.05)
    outcome = run(replace(mix(0, 500), members=(describer,), faults=(), rules=(), release="4.2"))
    assert not outcome.broken, outcome.text
    kinds = {schema_of(type(request(("t0",)))).api for request in REQUESTS}
    assert {api.key for api in kinds if api} <= answered


def test_requests_that_no_client_sends_are_listed() -> None:
    source = "".join(path.read_text("utf-8") for path in SIMULATION.rglob("*.py"))
    names = {APIS[key].name for key in HANDLERS}
    unsent = {name for name in names if not re.search(rf"\b{name}Request\b", source)} - {"SaslAuthenticate"}  # as bytes
    text = (ROOT / "docs/simulation.md").read_text("utf-8")
    listed = re.search(
        r"No client of the simulator sends these requests, which other tests cover: (.*?)\.\n", text, re.DOTALL
    )
    assert listed
    assert sorted(re.findall(r"[A-Z]\w+", listed[1])) == sorted(unsent)
