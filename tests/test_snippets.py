"""Code in README.md, CONTRIBUTING.md and docs/ runs as it is printed: users copy it.

Python blocks of a document run in order in one process, in an empty folder; a block with tests runs under pytest, and
one that the text before it names (as ``worker.py``) is saved under that name. Lines of ``sh`` blocks are commands: they run with sample input,
or, where that takes long, are parsed here and run in the test that ELSEWHERE names.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from importlib.metadata import metadata
from itertools import takewhile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from golden import ROOT
from interop.stage import MARKS, need_client
from need import need

import kwire.cli
import mockbroker.cli
from mockbroker import run_cluster

pytestmark = MARKS

GENERATED = ("docs/clients.md", "docs/command-line.md", "docs/conformance.md", "docs/python-api.md", "docs/reference/")
DOCUMENTS = [
    name
    for name in [
        "README.md",
        "CONTRIBUTING.md",
        *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
    ]
    if not name.startswith(GENERATED)
]
FENCE = re.compile(r"^(?P<before>[^\n]*\n\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:9092"
LIMIT = 120.0  # seconds for the Python of a document, or a command
CLIENTS = {"kafka": "kafka-python", "confluent_kafka": "confluent-kafka", "aiokafka": "aiokafka"}  # by module
CAPTURE = ROOT / "fixtures" / "captures" / "confluent-kafka-2.16.1__kafka-4.2.0__three.pcap.gz"
FRAMES = [
    {"direction": "request", "hex": "0012000000000001ffff"},
    {"direction": "response", "api_key": 12, "api_version": 0, "hex": "00000001001b"},
]
MAIN = {"kwire": kwire.cli.main, "mockbroker": mockbroker.cli.main}
MAIN_OPTIONS = {"--install-completion"}  # options of the whole command
ELSEWHERE = {  # commands that take long or need a server or files of their own
    ("kwire", "--install-completion"): "tests/kwire/test_completion.py",
    ("mockbroker", "--install-completion"): "tests/kwire/test_completion.py",
    ("kwire", "fuzz"): "tests/kwire/fuzz/test_live.py",
    ("kwire", "pipeline"): "tests/spark/test_job.py",
    ("mockbroker", "conform"): "tests/mockbroker/lab/conform/test_runner.py",
    ("mockbroker", "demo"): "tests/mockbroker/cli/test_demo.py",
    ("mockbroker", "import"): "tests/mockbroker/cli/test_import.py",
    ("mockbroker", "simulate"): "tests/mockbroker/lab/simulation/test_run.py",
}
RUNNER = """
import sys
import pytest

shared = {"__name__": "documentation"}
for path in sys.argv[1:]:
    print("running", path, flush=True)
    text = open(path, encoding="utf-8").read()
    if "def test_" in text:
        assert pytest.main(["-q", "--hypothesis-profile=ci", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", ".", path]) == 0
    else:
        exec(compile(text, path, "exec"), shared)
"""


def blocks(document: str, language: str) -> list[tuple[str, str]]:
    """Return the line before each block of a language, and the block."""
    text = (ROOT / document).read_text("utf-8")
    return [(block["before"] or "", block["text"]) for block in FENCE.finditer(text) if block["language"] == language]


def commands(document: str) -> list[str]:
    """Return the commands of the ``sh`` blocks, without comments and with continued lines joined."""
    lines = "\n".join(text for _, text in blocks(document, "sh")).replace("\\\n", " ").splitlines()
    words = (line.partition(" #")[0].strip().removeprefix(".venv/bin/") for line in lines)
    return [line for line in words if line and not line.startswith("#")]


@contextmanager
def served() -> Iterator[str]:
    """Run a broker with topic orders; yield its address."""
    with run_cluster(topics={"orders": 6}, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        yield cluster.bootstrap_servers


HOW_TO_TEST = "docs/how-to/test-"  # pages that tests/test_how_to.py runs
PYTHON = [name for name in DOCUMENTS if blocks(name, "python") and not name.startswith(HOW_TO_TEST)]


@pytest.mark.parametrize("document", PYTHON)
def test_python_of_a_document_runs(document: str, tmp_path: Path) -> None:
    snippets = blocks(document, "python")
    for module, client in CLIENTS.items():
        if any(re.search(rf"^(from|import) {module}\b", text, re.MULTILINE) for _, text in snippets):
            need_client(client)
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with served() as address:
        files = []
        for number, (before, text) in enumerate(snippets):
            named = re.search(r"[Ss]ave [\w ]+ as `(\w+\.py)`", before)
            name = named[1] if named else f"test_snippet_{number}.py"
            (tmp_path / name).write_text(text.replace(ADDRESS, address), "utf-8")
            files.append(name)
        command = [sys.executable, "-c", RUNNER, *files]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


COMMANDS = {command: document for document in DOCUMENTS for command in commands(document)}


@pytest.mark.parametrize("command", COMMANDS)
def test_command_of_a_document_runs(command: str, tmp_path: Path, sample_files: Path) -> None:
    document = COMMANDS[command]
    name, *words = words_of(command)
    match name:
        case "make":
            check_target(words)
        case "pip":
            check_extras(words)
        case "kwire" | "mockbroker":
            check_command(name, words, tmp_path, sample_files)
        case "kcat" | "echo":
            check_kcat(command)
        case "python":
            assert (ROOT / words[0]).exists() or words[0] == "-m", f"{document}: {command}"
        case "spark-submit":
            pass  # tests/spark/test_job.py runs the same file in a session
        case _:
            raise AssertionError(f"{document}: a test does not know how to run {command!r}")


def words_of(command: str) -> list[str]:
    """Split a command as a shell does, up to a pipe or a redirection."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(takewhile(lambda word: word not in {"|", ">", "<", "&"}, lexer))


def check_target(words: list[str]) -> None:
    words = [word for word in words if not word.startswith("[")]
    done = subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr


def check_extras(words: list[str]) -> None:
    extras = re.findall(r"\[([\w,-]+)\]", words[-1])
    assert {extra for group in extras for extra in group.split(",")} <= {
        *metadata("kwire").get_all("Provides-Extra", [])
    }


def check_command(name: str, words: list[str], folder: Path, sample_files: Path) -> None:
    """Run a command in a folder with sample input. ``serve`` is stopped when it is ready."""
    if words[0] not in MAIN_OPTIONS:
        parse(name, words)
    if (name, words[0]) in ELSEWHERE:
        assert (ROOT / ELSEWHERE[name, words[0]]).exists()
        return
    if words[0] == "serve":
        command = [sys.executable, "-m", name, *words, "--port", "0"]  # the last --port applies
        with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert any(line.startswith("ready bootstrap.servers=") for line in process.stdout)
            finally:
                process.kill()
        return
    shutil.copytree(sample_files, folder, symlinks=True, dirs_exist_ok=True)
    with chdir(folder):
        invoke(name, words)


def invoke(name: str, words: list[str], given: str = "") -> str:
    """Run a command in this process; return its output."""
    result = CliRunner().invoke(MAIN[name], words, input=given)
    assert result.exit_code == 0, result.output
    return result.stdout


def parse(name: str, words: list[str]) -> None:
    """Raise an error for an unknown verb, option or value; files in the arguments need not exist."""
    group = MAIN[name]
    context = click.Context(group, info_name=name, **group.context_settings)
    verb = group.get_command(context, words[0]) if not words[0].startswith("-") else group
    assert verb is not None, f"{name} has no command {words[0]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(click.Path, "convert", lambda *arguments: arguments[1])
        if verb is not group:
            verb.make_context(words[0], words[1:], parent=context)


@pytest.fixture(scope="module")
def sample_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that commands of the documents name."""
    folder = tmp_path_factory.mktemp("samples")
    frames = "".join(json.dumps(frame) + "\n" for frame in FRAMES)
    (folder / "frames.jsonl").write_text(frames, "utf-8")
    (folder / "decoded.jsonl").write_text(invoke("kwire", ["decode"], frames), "utf-8")
    for name in ("trace.pcap", "trace.pcapng.gz", "capture.pcap", "captures/one.pcap"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(CAPTURE, folder / name)
    (folder / "fixtures").symlink_to(ROOT / "fixtures")
    invoke("kwire", ["groups", str(CAPTURE), "--tables", str(folder / "tables")])
    return folder


SCRIPTS = [(document, text) for document in DOCUMENTS for _, text in blocks(document, "bash")]


@pytest.mark.parametrize(("document", "script"), SCRIPTS, ids=[document for document, _ in SCRIPTS])
def test_script_of_a_document_runs(document: str, script: str, tmp_path: Path) -> None:
    """A ``bash`` block is one script; processes that it leaves running are ended."""
    bare = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script.replace("serve ", "serve --port 0 ", 1)],
        cwd=tmp_path,
        env=os.environ | bare,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.wait(LIMIT) == 0, process.stdout and process.stdout.read()
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def check_kcat(command: str) -> None:
    need("kcat", "Debian has it as a package")
    with served() as address:
        first = f"echo tea | kcat -b {address} -P -t orders"
        for line in [first, command.replace(ADDRESS, address)]:
            subprocess.run(["sh", "-c", line], check=True, timeout=LIMIT, capture_output=True)


def test_no_two_clients_share_a_group() -> None:
    text = (ROOT / "docs" / "how-to" / "connect.md").read_text("utf-8")
    groups = re.findall(
        r'(?:group_id=|"group\.id": |"group\.id", |ConsumerGroup\(|groupId: |group=|-G )"?(\w{2,}[\w-]*)', text
    )
    assert len(groups) == len(set(groups)) == 8
    assert all(group.startswith("with-") for group in groups)


def test_every_document_is_in_the_index() -> None:
    linked = set(re.findall(r"\]\(([\w./-]+\.md)", (ROOT / "docs" / "README.md").read_text("utf-8")))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not page.startswith("reference/")} - {"README.md"} <= linked


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_of_a_document_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    targets = re.findall(r"\]\(([^)#:]+)(?:#[\w-]*)?\)", text)
    assert [target for target in targets if not (ROOT / document).parent.joinpath(target).exists()] == []


def test_readme_fits_on_a_few_screens() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 220
