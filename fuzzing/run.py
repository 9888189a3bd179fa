"""Coverage-guided fuzzing of the decoders: ``python fuzzing/run.py [--minutes 1] [TARGET ...]``, or ``make fuzz``.

Each target runs in its own process for its share of the time, and continues with the corpus of earlier runs in
.fuzzing/. Inputs that fail are written to fixtures/corpus/TARGET, and tests/test_fuzzing.py runs them from then on.
Needs atheris: ``pip install -e '.[fuzz-coverage]'``, on Linux, for the Pythons that it has wheels for.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from types import CodeType

HERE = Path(__file__).parent
WORK = HERE.parent / ".fuzzing"
MOST = 4_096  # bytes of an input
SHORTER = {"capture": 512, "tls_session": 512}  # bytes of an input of targets whose cost grows with each packet
TOO_SLOW = 60  # seconds of the wall for one input, after which libFuzzer calls it a hang; targets.soon limits its CPU
# The targets of targets.py, and of input_targets.py.
DECODERS = ("frame_buffer", "request", "response", "record_batch", "blob")
INPUTS = (
    "capture",
    "tls_hello",
    "tls_session",
    "segment",
    "data_directory",
    "sasl_token",
    "http_body",
    "rule_file",
)
NAMES = (*DECODERS, *INPUTS)


def fuzz(target: str, seconds: int, keep: Path | None = None) -> int:
    """Fuzz one target for a time; return its exit code, 0 if no input failed.

    ``keep``: file to which the number of executions is added.
    """
    import corpus

    folder, broken = WORK / target, corpus.CORPUS / target
    begun_with = corpus.write(target, folder)
    broken.mkdir(parents=True, exist_ok=True)
    log = WORK / f"{target}.log"
    end = time.monotonic() + seconds
    executions = code = 0
    while not code and (left := round(end - time.monotonic())) > 0:
        done = _run(target, left, folder, broken)
        log.write_text(done.stderr, encoding="utf-8")
        runs = re.search(r"number_of_executed_units: (\d+)", done.stderr)
        executions += int(runs[1]) if runs else 0
        code = done.returncode
    verdict = "nothing broke" if not code else f"BROKE, see {log} and {broken}"
    sys.stdout.write(f"{target}: {executions} executions in {seconds} s, {begun_with} seeds, {verdict}\n")
    sys.stdout.flush()
    if keep is not None:
        add_executions(keep, target, executions)
    if not any(broken.iterdir()):
        broken.rmdir()
    return code


def _run(target: str, seconds: int, folder: Path, broken: Path) -> subprocess.CompletedProcess[str]:
    """Run the fuzzer of a target in a process.

    Args:
        target: name of the target.
        seconds: maximum time.
        folder: folder of the corpus.
        broken: folder for inputs that fail.
    """
    command = [
        *(sys.executable, str(HERE / "run.py"), "--in-process", target, str(folder)),
        f"-max_total_time={seconds}",
        f"-max_len={SHORTER.get(target, MOST)}",
        f"-timeout={TOO_SLOW}",
        f"-artifact_prefix={broken}/",
        "-rss_limit_mb=1024",
        "-print_final_stats=1",
    ]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)  # noqa: S603 - ourselves


def add_executions(path: Path, target: str, executions: int) -> None:
    """Add a number of executions to the sum of a target in a file of results."""
    sums = json.loads(path.read_text("utf-8")) if path.exists() else {}
    sums[target] = sums.get(target, 0) + executions
    path.write_text(json.dumps(sums, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def in_process(target: str, arguments: list[str]) -> None:
    """Run the fuzzer of one target in this process. What it covers must not be imported before."""
    import atheris

    atheris.import_hook.patch_code = _instrument
    with atheris.instrument_imports(include=["kwire", "mockbroker"]):
        import targets

        if target in DECODERS:
            chosen = targets.TARGETS[target]
        else:
            import input_targets

            chosen = input_targets.TARGETS[target]
    atheris.Setup([sys.argv[0], *arguments], lambda data: targets.soon(chosen, data))
    atheris.Fuzz()


def _instrument(code: CodeType, trace_dataflow: bool) -> CodeType:
    """Instrument a module: its branches, and its comparisons unless it uses numpy.

    atheris never releases the arrays that instrumented code compares.
    """
    from atheris.instrument_bytecode import patch_code

    instrumented: CodeType = patch_code(code, trace_dataflow and "numpy" not in code.co_names)
    return instrumented


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="for all targets together")
    parser.add_argument("--json", type=Path, help="file to which the numbers of executions are added")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(NAMES))
    given = parser.parse_args()
    if unknown := set(given.targets) - set(NAMES):
        parser.error(f"unknown targets: {', '.join(sorted(unknown))} (possible: {', '.join(NAMES)})")
    chosen = given.targets or list(NAMES)
    seconds = max(1, round(given.minutes * 60 / len(chosen)))
    codes = [fuzz(target, seconds, given.json) for target in chosen]
    sys.exit(1 if any(codes) else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in-process"]:
        in_process(sys.argv[2], sys.argv[3:])
    else:
        main()
