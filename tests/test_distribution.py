"""The files of the sdist and the wheel, and the wheel alone in a fresh environment, without any extra."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from importlib.util import find_spec
from pathlib import Path

import pytest
from golden import ROOT
from need import lacking

from kwire.cli import EXTRAS
from kwire.cli import VERBS as KWIRE
from mockbroker.cli import VERBS as MOCKBROKER

COMMANDS = [
    ["kwire"],
    ["mockbroker"],
    *(["kwire", verb] for verb in KWIRE),
    *(["mockbroker", verb] for verb in MOCKBROKER),
]
TREES, SINGLE = ("kwire", "mockbroker", "docs"), ("README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml")
SLICE = {  # tests of the sdist, which packaging/sdist_check.py runs
    "tests/conftest.py",
    "tests/effort.py",
    *(f"tests/kwire/test_{name}.py" for name in ("codec", "envelope", "frames")),
    *(f"tests/mockbroker/api/test_{name}.py" for name in ("groups", "records")),
}
USES = {
    "public names": """
        import kwire, mockbroker, kwire.assignors, mockbroker.consumer
        for module in (kwire, mockbroker, kwire.assignors, mockbroker.consumer):
            for name in module.__all__:
                getattr(module, name)
    """,
    "the requests of a cluster": """
        from kwire import ClientSide
        from kwire.messages.metadata import MetadataRequest
        from mockbroker import run_cluster
        import socket
        with run_cluster(listeners=["SASL_PLAINTEXT"], users={"alice": "secret"}) as cluster:
            cluster.create_topic("orders", 2)
            cluster.produce("orders", ["tea"])
            assert cluster.records("orders")[0].value == b"tea"
            from kwire.messages.sasl_handshake import SaslHandshakeRequest
            from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
            host, port = cluster.bootstrap_servers.split(":")
            side = ClientSide("test")
            with socket.create_connection((host, int(port))) as sock:
                for body, version in (
                    (SaslHandshakeRequest(mechanism="PLAIN"), 1),
                    (SaslAuthenticateRequest(auth_bytes=b"\\0alice\\0secret"), 2),
                    (MetadataRequest(), 12),
                ):
                    sock.sendall(side.send(body, version))
                    while not side.next_response():
                        side.receive(sock.recv(65536))
            assert [request.api for request in cluster.requests()] == ["SaslHandshake", "SaslAuthenticate", "Metadata"]
            assert cluster.requests("SaslAuthenticate")[0].body.auth_bytes == b"[redacted]"
    """,
    "filters": """
        from kwire.filter import Column, parse
        holds, used = parse("latency_ms > 10", {"latency_ms": Column("a number")})
        assert holds({"latency_ms": 11}) and used == {"latency_ms"}
    """,
}
MISSING = {  # statements that need an extra, and the extra
    "import kwire.capture": "capture",
    "import kwire.spark": "spark",
    "from kwire.fuzz import frames": "fuzz",
}
REFUSED = {  # commands whose arguments need an extra, and the extra
    ("kwire", "anonymize", "trace.pcap", "-o", "out.jsonl"): "capture",
    ("kwire", "capture", "trace.pcap"): "capture",
    ("kwire", "groups", "trace.pcap"): "capture",
    ("kwire", "pipeline", "--input", "x", "--output", "y"): "spark",
    ("kwire", "report", ".", "--html", "page.html"): "report",
    ("mockbroker", "demo"): "demo",
    ("mockbroker", "serve", "--http", "0"): "http",
    ("mockbroker", "serve", "--demo"): "http",
    ("mockbroker", "replay", "."): "capture",
    ("mockbroker", "top"): "http",
    ("mockbroker", "torture", "--", "app"): "torture",
}
NEEDING = (  # modules that import a package of an extra
    "kwire.analysis",
    "kwire.anonymize",
    "kwire.capture",
    "kwire.spark",
    "kwire.fuzz.strategies",
    *(f"kwire.cli.{verb}" for verb in EXTRAS),
    "kwire.cli.analysed",
    "kwire.cli.interface",
    "mockbroker.control",
    "mockbroker.lab.demo",
    *(f"mockbroker.lab.torture.{name}" for name in ("process", "report", "runner", "testing")),
    "mockbroker.pytest_plugin",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sdist and the wheel."""
    if find_spec("hatchling") is None:
        lacking("hatchling is not installed: it builds the package (extra dev)")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return folder


def tracked(*trees: str) -> set[str]:
    """Return the files in these folders of the checkout, without the caches of Python."""
    files = [path for tree in trees for path in (ROOT / tree).rglob("*") if path.is_file()]
    return {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}


def test_the_sdist_has_the_packages_and_the_documents(built: Path) -> None:
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == {*tracked(*TREES), *SINGLE, *SLICE, ".gitignore", "PKG-INFO"}


def test_the_wheel_has_the_packages_alone(built: Path) -> None:
    """The wheel has the built live page, without its sources."""
    (file,) = built.glob("*.whl")
    names = {name for name in zipfile.ZipFile(file).namelist() if ".dist-info/" not in name}
    sources = tracked("mockbroker/page") - tracked("mockbroker/page/built")
    assert names == tracked("kwire", "mockbroker") - sources


@pytest.fixture(scope="module")
def fresh(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the commands of an environment that contains only the wheel and its requirements."""
    home = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True, timeout=60)
    (packages,) = (home / "lib").glob("python3.*/site-packages")
    for package in required(distribution("kwire"), set()):
        link_files(package, packages)
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--quiet", str(wheel)], check=True, timeout=120)
    return home / "bin"


def required(package: Distribution, seen: set[str]) -> Iterator[Distribution]:
    """Return the requirements of a distribution without extras, and their requirements in turn."""
    for line in package.requires or []:
        name = re.split(r"[ ;<>=!~\[(]", line)[0]
        if "extra ==" in line or name in seen:
            continue
        seen.add(name)
        try:
            needed = distribution(name)
        except ModuleNotFoundError:  # a requirement for another Python or system
            continue
        yield needed
        yield from required(needed, seen)


def link_files(package: Distribution, packages: Path) -> None:
    for top in {file.parts[0] for file in package.files or [] if file.parts[0] != ".."}:
        if top != "__pycache__" and not (packages / top).exists():
            (packages / top).symlink_to(Path(str(package.locate_file(top))))


def run(fresh: Path, *command: str) -> subprocess.CompletedProcess[str]:
    words = [str(fresh / command[0]), *command[1:]]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, env={}, cwd=fresh)


@pytest.mark.parametrize("extra", ["numpy", "pyarrow", "pyspark", "hypothesis", "kafka", "rich", "pytest"])
def test_no_extra_is_there(fresh: Path, extra: str) -> None:
    assert f"No module named '{extra}'" in run(fresh, "python", "-c", f"import {extra}").stderr


@pytest.mark.parametrize("use", USES)
def test_package_works_without_extras(fresh: Path, use: str) -> None:
    code = "\n".join(line[8:] for line in USES[use].splitlines())
    done = run(fresh, "python", "-W", "error", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_or_one_line_that_names_the_extra(fresh: Path, command: list[str]) -> None:
    done = run(fresh, *command, "--help")
    if command[0] == "kwire" and command[-1] in EXTRAS:
        assert done.returncode == 0 or one_line(done, EXTRAS[command[-1]])
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"Usage: {' '.join(command)} ")


@pytest.mark.parametrize(("command", "extra"), REFUSED.items(), ids=[" ".join(command) for command in REFUSED])
def test_a_command_names_the_extra_that_it_needs(fresh: Path, command: list[str], extra: str) -> None:
    done = run(fresh, *command)
    assert done.returncode in (1, 2)
    assert one_line(done, extra)


def one_line(done: subprocess.CompletedProcess[str], extra: str) -> bool:
    """Return the last line of stderr; after wrong usage, the usage precedes it."""
    return bool(re.fullmatch(rf"Error: .+: pip install 'kwire\[{extra}\]'", done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(("code", "extra"), MISSING.items(), ids=list(MISSING))
def test_a_module_names_the_extra_that_it_needs(fresh: Path, code: str, extra: str) -> None:
    last = run(fresh, "python", "-c", code).stderr.splitlines()[-1]
    assert re.fullmatch(rf"ModuleNotFoundError: \w+ is missing: pip install 'kwire\[{extra}\]'", last)


def test_every_other_module_can_be_imported(fresh: Path) -> None:
    """This includes modules that no command and no public name imports."""
    code = "import sys, importlib\nfor name in sys.stdin.read().split():\n    importlib.import_module(name)"
    files = [Path(name) for name in tracked("kwire", "mockbroker") if name.endswith(".py")]
    names = [".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files]
    plain = [name for name in sorted(names) if not name.startswith(NEEDING)]
    words = [str(fresh / "python"), "-c", code]
    done = subprocess.run(words, input="\n".join(plain), capture_output=True, text=True, timeout=120, env={})
    assert (done.returncode, done.stderr) == (0, "")
