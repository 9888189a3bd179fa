"""How a command's process ends at Ctrl-C: with one line and code 130, whatever it was doing."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import psutil
import pytest
from captures import heartbeats
from commands import command, kwire
from golden import ROOT
from tools.pcap import Talk, packets, pcap

IMPORTING = [  # a command, and a module that it imports
    ("kwire", "apis", "click"),
    ("kwire", "apis", "kwire.messages"),
    ("kwire", "decode", "kwire.cli.decode"),
    ("kwire", "capture", "numpy"),
    ("mockbroker", "serve", "click"),
    ("mockbroker", "serve", "trio"),
    ("mockbroker", "conform", "trio"),
    ("mockbroker", "demo", "trio"),
    ("mockbroker", "import", "mockbroker.importing"),
    ("mockbroker", "simulate", "click"),
]
LINE = b"Error: interrupted\n"
FRAME = b"00120000000000070000\n"


def interrupted(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Send SIGINT; return the exit code, and what the process wrote to stderr after it."""
    process.send_signal(signal.SIGINT)
    try:
        _, stderr = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()  # SIGINT is ignored, as in background jobs of a script
        raise
    return process.returncode, stderr


@pytest.mark.parametrize(("module", "verb", "imported"), IMPORTING)
def test_ctrl_c_during_an_import(module: str, verb: str, imported: str, tmp_path: Path) -> None:
    hook = f"""
        import sys
        class Hook:
            def find_spec(self, name, path=None, target=None):
                if name == {imported!r}:
                    print("importing", file=sys.stderr, flush=True)
                    import threading
                    threading.Event().wait()
        sys.meta_path.insert(0, Hook())
    """
    (tmp_path / "sitecustomize.py").write_text("\n".join(line[8:] for line in hook.splitlines()), "utf-8")
    with command(verb, "--help", module=module, env={**os.environ, "PYTHONPATH": str(tmp_path)}) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"importing\n"
        assert interrupted(process) == (130, LINE)


def test_ctrl_c_while_it_reads() -> None:
    with command("decode") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(FRAME)
        process.stdin.flush()
        process.stdout.readline()
        assert interrupted(process) == (130, LINE)


WORKER = "import time, os; print(os.getpid(), flush=True); time.sleep(600)"


def test_ctrl_c_ends_torture_and_its_client() -> None:
    with command("torture", "--start", "600", "--", sys.executable, "-c", WORKER, module="mockbroker") as process:
        assert process.stdin is not None
        child = wait_child(process.pid)
        assert interrupted(process) == (130, LINE)
    with pytest.raises(psutil.NoSuchProcess):
        psutil.Process(child)


def wait_child(pid: int) -> int:
    """Return the id of the client that a process has started; trio's imports start other programs before it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for child in psutil.Process(pid).children():
            with contextlib.suppress(psutil.Error):  # a process that has ended in the meantime
                if child.cmdline()[-1:] == [WORKER]:
                    time.sleep(0.1)  # until Popen has returned: it keeps no child that an exception interrupts
                    return child.pid
        time.sleep(0.05)
    raise AssertionError("no client after a minute")


@pytest.mark.parametrize(
    "verb", [["demo", "--json"], ["simulate", "--seeds", "100000", "--events", "10", "--json"]], ids=" ".join
)
def test_ctrl_c_while_it_runs(verb: list[str]) -> None:
    """The command demo runs in tasks of trio, simulate outside of them."""
    with command(*verb, module="mockbroker") as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert interrupted(process) == (130, LINE)


def test_a_background_job_ignores_it() -> None:
    ignoring = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    with command("decode", **ignoring) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(FRAME)
        process.stdin.flush()
        process.stdout.readline()
        assert interrupted(process) == (0, b"")


def test_the_installed_commands_begin_with_it() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert scripts == {name: f"{name}.__main__:main" for name in ("kwire", "mockbroker")}


def test_half_created_objects_report_no_errors_at_ctrl_c() -> None:
    half = "class Half:\n    def __del__(self): self.file.close()\n"
    ending = f"{half}kept = []\ndef main(prog_name):\n    kept.append(Half())\n    raise SystemExit(130)\n"
    code = f"import sys, types; m = sys.modules['ending'] = types.ModuleType('ending'); exec({ending!r}, vars(m))"
    code += "; from kwire.process import run; run('ending')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, LINE)


def test_atexit_functions_run_at_ctrl_c() -> None:
    ending = "import atexit\ndef main(prog_name):\n    atexit.register(print, 'tidied up')\n    raise SystemExit(130)\n"
    code = f"import sys, types; m = sys.modules['ending'] = types.ModuleType('ending'); exec({ending!r}, vars(m))"
    code += "; from kwire.process import run; run('ending')"
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run([sys.executable, "-c", code], env=buffered, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.encode()) == (130, "tidied up\n", LINE)


CLOSED = [  # the streams that a shell closes, and a command
    (">&-", "kwire apis"),
    (">&-", "kwire decode 00120000000000070000"),
    (">&-", "mockbroker simulate --seeds 1 --events 10"),
    ("<&-", "kwire decode"),
    ("<&- >&-", "kwire decode"),
    ("<&- >&- 2>&-", "kwire apis"),
]


@pytest.mark.parametrize(("closed", "words"), CLOSED)
def test_a_stream_that_is_closed_is_as_dev_null(closed: str, words: str) -> None:
    done = subprocess.run(["sh", "-c", f'"$0" -m {words} {closed}', sys.executable], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_text_that_stdout_cannot_encode_is_escaped(tmp_path: Path) -> None:
    talk = Talk()
    file = tmp_path / "orders.pcap"
    file.write_bytes(pcap(packets([*talk.open(), *heartbeats(talk, 1, client_id="zählung-注文")])))
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    with command("readiness", str(file), env=environment) as process:
        out, stderr = process.communicate()
    assert b"client z\xe4hlung-\\u6ce8\\u6587" in out
    assert (process.returncode, stderr) == (0, b"")


def test_ctrl_c_inside_exec_has_the_same_exit_code(tmp_path: Path) -> None:
    """As ``python -m``, Python would end by SIGINT: it remembers an interrupted exec, though the exception is handled."""
    (tmp_path / "begin.py").write_text("from kwire.process import run\nrun('ending')\n")
    (tmp_path / "ending.py").write_text(
        "def main(prog_name):\n"
        "    try:\n"
        "        exec('raise KeyboardInterrupt')\n"
        "    except KeyboardInterrupt:\n"
        "        raise SystemExit(130)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run([sys.executable, "-m", "begin"], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, LINE)


def test_a_called_command_freezes_no_objects() -> None:
    """Objects of the program that are garbage later, such as Kafka clients, are collected."""
    frozen = gc.get_freeze_count()
    gc.disable()
    try:
        assert kwire("apis").exit_code == 0
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert gc.get_freeze_count() <= frozen  # frozen objects of other tests may have been freed


def test_a_process_of_a_command_freezes_its_modules() -> None:
    code = """
import atexit, gc, sys
from kwire import process
atexit.register(lambda: print(gc.get_freeze_count() > 10_000, gc.isenabled()))
sys.argv = ["kwire", "apis"]
process.run("kwire.cli")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.splitlines()[-1], done.returncode) == ("True True", 0), done.stderr
