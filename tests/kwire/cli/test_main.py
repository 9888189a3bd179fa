"""The whole command, mostly as a separate process."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from captures import COMMITTED
from commands import command, kwire
from effort import every

import kwire as package
from kwire.cli import VERBS
from kwire.cli import main as main_command
from kwire.engines.chosen import DEFAULT

FRAME = b"00120000000000070000\n"


def test_help_names_every_verb() -> None:
    result = kwire("--help")
    assert result.exit_code == 0
    assert all(verb in result.stdout and summary in result.stdout for verb, summary in VERBS.items())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str) -> None:
    result = kwire(verb, "--help")
    assert result.exit_code == 0
    assert len(result.stdout) > 200


def test_every_file_of_verbs_is_listed() -> None:
    assert main_command.callback is not None
    files = {path.stem for path in (Path(package.__file__).parent / "cli").glob("*.py")}
    assert files == {*VERBS, "__init__", "analysed", "interface", "ports", "frames", "lines", "top_text"}


@pytest.mark.parametrize("verb", ["capture", "groups", "pipeline", ""])
def test_no_such_verb(verb: str) -> None:
    assert kwire(verb).exit_code == 2


def test_version() -> None:
    assert kwire("--version").stdout == f"kwire, version {package.__version__}, {DEFAULT} engine\n"


def test_a_verb_is_imported_only_when_it_runs() -> None:
    code = """if True:
        import sys
        from kwire.cli import main
        main(["--help"], standalone_mode=False)
        sys.exit(any(name.startswith("kwire.cli.") for name in sys.modules))
    """
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


def test_process() -> None:
    process = command("decode")
    out, err = process.communicate(FRAME + b"zz\n" + FRAME)
    assert process.returncode == 1
    assert out.count(b"\n") == 3
    assert err == b"<stdin>:2: hex: invalid hex digit 'z' at position 0\n"


def test_input_is_streamed() -> None:
    with command("decode") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(3):
            process.stdin.write(FRAME)
            process.stdin.flush()
            assert process.stdout.readline().startswith(b'{"direction": "request"')
        process.stdin.close()
        assert process.wait(30) == 0


def test_reader_that_leaves_early(tmp_path: Path) -> None:
    path = tmp_path / "frames"
    path.write_bytes(FRAME * 20_000)
    with command("decode", str(path)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == -signal.SIGPIPE


CAPTURE = str(next(path for path in COMMITTED if "kip848" in path.name))
PRINTING = [  # a verb each, with what it needs to print something; --help for those that print nothing without a network
    ["anonymize", "--help"],
    ["apis"],
    ["apis", "--json"],
    ["blob", "ConsumerProtocolSubscription"],
    ["capture", CAPTURE],
    ["capture", "--format", "table", CAPTURE],
    ["decode"],
    ["encode"],
    ["explain"],
    ["fuzz", "--help"],
    ["groups", CAPTURE],
    ["groups", "--json", CAPTURE],
    ["layout", "Fetch"],
    ["pipeline", "--help"],
    ["readiness", CAPTURE],
    ["compare", CAPTURE, CAPTURE],
    ["top", "--once", CAPTURE],
    ["report", "--help"],
    ["--help"],
    ["--version"],
]
GIVEN = {"decode": FRAME, "explain": FRAME, "blob": b'{"hex_as_stored": "00000000000000000000"}\n'}


def test_every_verb_is_among_those_that_print() -> None:
    assert {arguments[0] for arguments in PRINTING if not arguments[0].startswith("-")} == set(VERBS)


@pytest.mark.parametrize("arguments", every(3, PRINTING), ids=" ".join)
def test_closed_stdout_pipe_ends_quietly(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with command(*arguments, stdout=writing) as process:
        os.close(writing)
        _, reported = process.communicate(GIVEN.get(arguments[0], b"{}\n"), timeout=60)
    if arguments[0] == "encode":  # an invalid line is reported, even if stdout is closed
        reported = b"".join(line for line in reported.splitlines() if not line.startswith(b"<stdin>:1:"))
    assert (process.returncode, reported) == (-signal.SIGPIPE, b"")


@pytest.mark.parametrize("arguments", every(3, PRINTING), ids=" ".join)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_full_disk_is_reported(arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full, command(*arguments, stdout=full) as process:
        _, said = process.communicate(GIVEN.get(arguments[0], b"{}\n"), timeout=60)
    assert process.returncode == 1
    assert said.splitlines()[-1] == b"Error: cannot write: No space left on device"
    assert b"Traceback" not in said


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="there is no file here that cannot be read")
def test_a_read_that_fails_is_not_called_a_write() -> None:
    result = kwire("capture", "/proc/self/mem")
    assert result.exit_code == 1
    assert "read error: Input/output error" in result.stderr
    assert "cannot write" not in result.stderr


def test_no_colour_in_a_pipe() -> None:
    for arguments in (["--help"], ["apis"], ["layout", "nothing"]):
        process = command(*arguments, env={**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "1"})
        out, err = process.communicate()
        assert b"\x1b" not in out + err


def on_terminal(*words: str, **variables: str) -> tuple[int, str]:
    """Return exit code and output of a command whose standard streams are a terminal."""
    controller, terminal = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | variables
    streams = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
    with command(*words, env=environment, **streams) as process:
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # the end of a terminal
            while data := os.read(controller, 4096):
                shown += data
        os.close(controller)
    return process.returncode, shown.decode()


@pytest.mark.parametrize("verb", [["decode"], ["encode"], ["explain"], ["blob", "ConsumerProtocolSubscription"]])
def test_usage_without_input_on_a_terminal(verb: list[str]) -> None:
    code, shown = on_terminal(*verb, NO_COLOR="1")
    assert code == 2
    assert shown.startswith(f"Usage: kwire {verb[0]} [OPTIONS] ")
    assert "input on stdin" in shown


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)], ids=["", "NO_COLOR"])
@pytest.mark.parametrize("words", [["layout", "--help"], ["explain", "00120000000000070000"]], ids=" ".join)
def test_colours_on_a_terminal(words: list[str], variables: dict[str, str], coloured: bool) -> None:
    code, shown = on_terminal(*words, **variables)
    assert code == 0
    assert ("\x1b[" in shown) is coloured


def test_ascii_locale() -> None:
    process = command("decode", env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    out, err = process.communicate("ж\n".encode())
    assert process.returncode == 1
    assert out.isascii()
    assert b"Traceback" not in err
