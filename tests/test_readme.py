"""The snippets of README.md run as shown, in order, in one process: users copy them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from golden import ROOT
from interop.stage import MARKS, need_client

import kwire.cli
import mockbroker.cli

pytestmark = MARKS

README = (ROOT / "README.md").read_text("utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [  # those of both commands in blocks, without what a shell makes of the rest of the line
    line.removeprefix(".venv/bin/").partition("#")[0]
    for block in re.findall(r"^```(?:sh)?\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if re.match(r"(\.venv/bin/)?(kwire|mockbroker) ", line)
]
ADDRESS = "127.0.0.1:9092"
LIMIT = 120.0  # seconds
RUNNER = """
import sys, traceback
import pytest

shared = {"__name__": "readme"}
for path in sys.argv[1:]:
    print("running", path, flush=True)
    text = open(path, encoding="utf-8").read()
    if "def test_" in text:
        assert pytest.main(["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", ".", path]) == 0
    else:
        exec(compile(text, path, "exec"), shared)
"""


@contextmanager
def served() -> Iterator[str]:
    """The broker that README starts, at a port that is free; gives the address."""
    (command,) = [line for line in COMMANDS if line.startswith("mockbroker serve --topic orders:6 --set ")]
    words = [sys.executable, "-m", *shlex.split(command), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip().removeprefix("ready bootstrap.servers=")
        finally:
            process.kill()


def test_the_python_snippets_run_in_order(tmp_path: Path) -> None:
    for family in ("kafka-python", "confluent-kafka", "aiokafka"):
        need_client(family)
    assert len(PYTHON) == 9
    files = [tmp_path / f"test_snippet_{number}.py" for number in range(len(PYTHON))]
    with served() as address:
        for file, snippet in zip(files, PYTHON, strict=True):
            file.write_text(snippet.replace(ADDRESS, address), "utf-8")
        command = [sys.executable, "-c", RUNNER, *map(str, files)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("b'tea'") == 4, "each client reads the record"
        assert "cannot" not in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_one_that_there_is(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its verb and options are known, and so are their values; files it names need not exist."""
    monkeypatch.setattr(click.Path, "convert", lambda *arguments: arguments[1])
    name, *words = shlex.split(command)
    group = {"kwire": kwire.cli.main, "mockbroker": mockbroker.cli.main}[name]
    context = click.Context(group, info_name=name)
    verb = group.get_command(context, words[0])
    assert verb is not None
    assert verb.make_context(words[0], words[1:], parent=context).command is verb


def test_no_two_clients_share_a_group() -> None:
    shown = re.findall(
        r'(?:group_id=|"group\.id": |"group\.id", |ConsumerGroup\(|groupId: |group=|-G )"?(\w{2,}[\w-]*)', README
    )
    clients = [group for group in shown if group.startswith("with-")]
    assert len(clients) == len(set(clients)) == 7
    assert set(shown) == {*clients, "billing"}
