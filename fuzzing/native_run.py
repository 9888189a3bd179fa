"""cargo-fuzz targets of the native engine: ``python fuzzing/native_run.py [TARGET ...]``, or ``make fuzz-native``.

Builds the targets in native/fuzz with coverage instrumentation and AddressSanitizer, and runs each of them in a process
of its own. The corpus of earlier runs is kept in .fuzzing/. Inputs that fail are written to
fixtures/corpus/native_TARGET. Without cargo or a C++ compiler, the command prints the reason and ends with exit code 0.

The release of Rust need not be a nightly one: RUSTC_BOOTSTRAP=1 allows the option for the sanitizer.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from run import WORK, add_executions

ROOT = Path(__file__).parent.parent
FUZZ = ROOT / "native" / "fuzz"
BUILD = ROOT / ".cache" / "native-fuzz"
TARGETS = (
    *("message", "json", "records", "codec", "line", "calls", "requests", "forwarded", "columns", "errors"),
    *("frame_log", "frame_records", "cursor", "text"),
)
EXECUTIONS = 1_000_000
FEW = 200  # seeds of a run that ends after a few seconds
MOST = 1_024  # bytes of an input
LARGEST = {"calls": 512, "columns": 80}  # the same, for targets whose time is proportional to the size of the input
SLOW = 10  # seconds for one input
MEMORY = 2_048  # MiB of the process
OLDEST = 85  # minor version of Rust, as in native/Cargo.toml
FLAGS = (  # of cargo-fuzz
    *("-Cpasses=sancov-module", "-Cllvm-args=-sanitizer-coverage-level=4"),
    *("-Cllvm-args=-sanitizer-coverage-inline-8bit-counters", "-Cllvm-args=-sanitizer-coverage-pc-table"),
    *("-Cllvm-args=-sanitizer-coverage-trace-compares", "-Cllvm-args=-simplifycfg-branch-fold-threshold=0"),
    *("-Cdebug-assertions", "-Coverflow-checks", "-Ccodegen-units=1", "--cfg=fuzzing"),
)
FUNCTION = re.compile(r"COVERED_FUNC: hits: \d+ edges: (\d+)/(\d+) (.*) \S*/native/fuzz/\.\./src/(\w+)\.rs:\d+$")
Edges = dict[tuple[str, str], tuple[int, int]]


class Tools(NamedTuple):
    """What the build needs.

    Attributes:
        host: target triple of this machine.
        has_sanitizer: True if AddressSanitizer is part of the installed Rust.
    """

    host: str
    has_sanitizer: bool


class Limit(NamedTuple):
    """The end of a run.

    Attributes:
        option: option of libFuzzer.
        seeds: maximum number of seeds.
        has_coverage: True to measure the coverage of the corpus.
    """

    option: str
    seeds: int
    has_coverage: bool


def tools() -> Tools | str:
    """Return what the build needs, or the reason why the targets cannot be built."""
    if sys.platform == "win32":
        return "the targets are built on Linux and macOS"
    if not shutil.which("cargo"):
        return "cargo is not installed (https://rustup.rs)"
    version = _output("rustc", "-vV")
    found = re.search(r"^release: 1\.(\d+)", version, re.MULTILINE)
    host = re.search(r"^host: (\S+)", version, re.MULTILINE)
    if not found or not host or int(found[1]) < OLDEST:
        return f"Rust 1.{OLDEST} or newer is needed, found {version.partition(chr(10))[0]}"
    if not any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "g++", "clang++")):
        return "libFuzzer needs a C++ compiler: install g++ or clang"
    folder = Path(_output("rustc", "--print", "sysroot").strip()) / "lib" / "rustlib" / host[1] / "lib"
    return Tools(host[1], any(folder.glob("*rt.asan.*")))


def _output(*command: str) -> str:
    return _run(command, None).stdout


def _run(command: Sequence[str], variables: Mapping[str, str] | None) -> subprocess.CompletedProcess[str]:
    """Run a program with environment variables, or with those of this process."""
    return subprocess.run(  # noqa: S603 - a compiler or our own target
        command, env=variables, capture_output=True, text=True, errors="replace", check=False
    )


def build(have: Tools) -> int:
    """Build all targets; return the exit code of cargo."""
    flags = [*FLAGS, *(["-Zsanitizer=address"] if have.has_sanitizer else [])]
    environment = os.environ | {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CARGO_TARGET_DIR": str(BUILD),
        "PYO3_PYTHON": sys.executable,
        "RUSTC_BOOTSTRAP": "1",
    }
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--bins", "--target", have.host]
    return subprocess.run(command, cwd=FUZZ, env=environment, check=False).returncode  # noqa: S603 - our own sources


def environment(*, malloc: bool = False) -> dict[str, str]:
    """Return the environment in which a target finds Python, its libraries and this repository.

    ``malloc``: True to allocate each object of Python with ``malloc``, which takes twice the time. AddressSanitizer
    then also checks the accesses of native/src/raw.rs to these objects.
    """
    folders = [ROOT, ROOT / "fuzzing", sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    library = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
    return os.environ | {
        "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=16:allocator_may_return_null=1",
        "KWIRE_ENGINE": "native",
        "PYTHONHOME": sys.base_prefix,
        "PYTHONMALLOC": "malloc" if malloc else "pymalloc",
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(map(str, folders))),
        library: str(sysconfig.get_config_var("LIBDIR")),
    }


def fuzz(target: str, have: Tools, limit: Limit, keep: Path | None, edges: Edges) -> int:
    """Run a target, and then every input of its corpus once more with ``malloc``; return 0 if no input failed.

    Args:
        target: name of the target.
        have: tools of the build.
        limit: end of the run.
        keep: file to which the number of executions is added; None for no file.
        edges: executed and existing edges of each function of native/src, to which those of the target are added.
    """
    import native_seeds

    folder, broken = WORK / f"native_{target}", native_seeds.folder_of(target)
    log = WORK / f"native_{target}.log"
    begun_with = native_seeds.write(target, folder, limit.seeds)
    broken.mkdir(parents=True, exist_ok=True)
    command = [
        *(str(BUILD / have.host / "release" / target), str(folder), "-print_final_stats=1"),
        *(
            f"-max_len={LARGEST.get(target, MOST)}",
            f"-timeout={SLOW}",
            f"-rss_limit_mb={MEMORY}",
            f"-artifact_prefix={broken}/",
        ),
    ]
    done = _run([*command, limit.option], environment())
    numbers = {name: int(text) for name, text in re.findall(r"stat::(\w+):\s+(\d+)", done.stderr)}
    count, memory = numbers.get("number_of_executed_units", 0), numbers.get("peak_rss_mb", 0)
    if not done.returncode:
        done = _run([*command, "-runs=1", f"-print_coverage={int(limit.has_coverage)}"], environment(malloc=True))
    log.write_text(done.stderr, encoding="utf-8")
    covered = functions(done.stderr)
    edges |= {name: max(pair, edges.get(name, (0, 0))) for name, pair in covered.items()}
    verdict = f"BROKE, see {log} and {broken}" if done.returncode else f"{memory} MiB, {share(covered)}nothing broke"
    sys.stdout.write(f"{target}: {count:,} executions, {begun_with} seeds, {verdict}\n")
    sys.stdout.flush()
    if keep is not None:
        add_executions(keep, f"native_{target}", count)
    if not any(broken.iterdir()):
        broken.rmdir()
    return done.returncode


def functions(report: str) -> Edges:
    """Return the executed and the existing edges of each function, by its file and its name.

    ``report``: output of libFuzzer with -print_coverage=1, which has no names without llvm-symbolizer or addr2line.
    """
    rows = (FUNCTION.search(line) for line in report.splitlines())
    return {(row[4], row[3]): (int(row[1]), int(row[2])) for row in rows if row}


def share(edges: Mapping[tuple[str, str], tuple[int, int]]) -> str:
    """Return a text with the executed share of the edges in the files of native/src."""
    reached = {file for (file, _), (executed, _) in edges.items() if executed}
    texts = []
    for file in sorted(reached):
        pairs = [pair for (other, _), pair in edges.items() if other == file]
        executed, existing = (sum(pair[side] for pair in pairs) for side in (0, 1))
        texts.append(f"{file} {executed}/{existing}")
    return f"edges of {', '.join(texts)}; " if texts else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--executions", type=int, default=EXECUTIONS, help="of each target")
    parser.add_argument("--seconds", type=int, help="end each target after this time, with few seeds")
    parser.add_argument("--build", action="store_true", help="build the targets, and run none of them")
    parser.add_argument("--json", type=Path, help="file to which the numbers of executions are added")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    given = parser.parse_args()
    if unknown := set(given.targets) - set(TARGETS):
        parser.error(f"unknown targets: {', '.join(sorted(unknown))} (possible: {', '.join(TARGETS)})")
    have = tools()
    if isinstance(have, str):
        sys.stderr.write(f"make fuzz-native: nothing was run: {have}\n")
        return 0
    if not have.has_sanitizer:
        sys.stderr.write(f"make fuzz-native: without AddressSanitizer, which this Rust lacks on {platform.machine()}\n")
    code = build(have)
    if code or given.build:
        return code
    limit = Limit(f"-runs={given.executions}", 1_000_000, has_coverage=True)
    if given.seconds:
        limit = Limit(f"-max_total_time={given.seconds}", FEW, has_coverage=False)
    edges: Edges = {}
    chosen = given.targets or TARGETS
    codes = [fuzz(target, have, limit, given.json, edges) for target in chosen]
    if edges and len(chosen) > 1:
        sys.stdout.write(f"all: {share(edges).rstrip('; ')}\n")
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
