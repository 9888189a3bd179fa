"""The public types: mypy --strict and pyright in strict mode accept a program of a user, and report its mistakes."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import pytest
from golden import ROOT
from need import lacking

from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from mockbroker import (
    GroupState,
    GroupTypeName,
    KafkaCluster,
    ThreadCluster,
    TransactionState,
    open_cluster,
    run_cluster,
)
from mockbroker.api.wait import STATES
from mockbroker.groups.group_types import GROUP_TYPES
from mockbroker.transactions.state import State

USER = ROOT / "tests" / "typing"
PROGRAM, MISTAKES = "user_program.py", "user_mistakes.py"
MYPY = ["--config-file=", "--strict", "--follow-imports=silent", "--no-error-summary", "--hide-error-context"]
INTERNAL = {"open_connections"}  # public names of ThreadCluster that only the live page uses


def by_mypy(folder: Path) -> set[tuple[str, int]]:
    """Return the lines with an error."""
    command = [sys.executable, "-m", "mypy", *MYPY, "--cache-dir", str(ROOT / ".mypy_cache" / "user"), "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    return {(name, int(line)) for name, line in re.findall(r"^(\w+\.py):(\d+): error", done.stdout, re.MULTILINE)}


def by_pyright(folder: Path) -> set[tuple[str, int]]:
    """Return the lines with an error."""
    environment = {"venvPath": str(Path(sys.prefix).parent), "venv": Path(sys.prefix).name}
    config = {"typeCheckingMode": "strict", "include": [PROGRAM, MISTAKES], **environment}
    (folder / "pyrightconfig.json").write_text(json.dumps(config), "utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in found}


@pytest.mark.parametrize("check", [by_mypy, by_pyright], ids=["mypy", "pyright"])
def test_strict_checkers_accept_a_program_and_find_mistakes(check: Any, tmp_path: Path) -> None:
    tool = check.__name__.removeprefix("by_")
    if find_spec(tool) is None:
        lacking(f"{tool} is not installed (extra dev)")
    for name in (PROGRAM, MISTAKES):
        shutil.copy(USER / name, tmp_path)
    marked = [
        number for number, line in enumerate((USER / MISTAKES).read_text("utf-8").splitlines(), 1) if "# mis" in line
    ]
    assert len(marked) == 8
    assert check(tmp_path) == {(MISTAKES, number) for number in marked}


def test_literal_types_have_the_names_of_the_code() -> None:
    assert set(get_args(GroupState)) == set(STATES)
    assert set(get_args(GroupTypeName)) == {each.name for each in GROUP_TYPES.types}
    assert set(get_args(TransactionState)) == {each.value for each in State}


def members(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def test_protocol_type_has_the_methods_of_the_handle() -> None:
    with run_cluster() as cluster:
        attributes = {name for name in vars(cluster) if not name.startswith("_")}
    assert members(KafkaCluster) == members(ThreadCluster) - INTERNAL | attributes


@pytest.mark.parametrize("name", sorted(members(KafkaCluster) & set(vars(KafkaCluster)) - {"requests"}))
def test_protocol_type_has_the_signatures_of_the_handle(name: str) -> None:
    promised, actual = (inspect.getattr_static(each, name, None) for each in (KafkaCluster, ThreadCluster))
    if not isinstance(promised, property):
        assert callable(promised)
        assert callable(actual)
        result = inspect.signature(promised).return_annotation
        if name.endswith("_async"):
            result = result.removeprefix("Coroutine[Any, Any, ").removesuffix("]")
        assert inspect.signature(promised).replace(return_annotation=result) == inspect.signature(actual)


@pytest.mark.parametrize("function", [run_cluster, open_cluster], ids=lambda function: function.__name__)
def test_help_describes_every_parameter(function: Any) -> None:
    described = set(re.findall(r"^    (\w+): \S", inspect.getdoc(function) or "", re.MULTILINE))
    assert set(inspect.signature(function).parameters) <= described


def test_requests_are_selected_by_their_class() -> None:
    with run_cluster() as cluster:
        assert cluster.requests(JoinGroupRequest) == cluster.requests("JoinGroup") == []
        with pytest.raises(ValueError, match="JoinGroupResponse is not the request of an API: use a class such as"):
            cluster.requests(JoinGroupResponse)
        with pytest.raises(ValueError, match="is not a declared message"):
            cluster.requests(int)
