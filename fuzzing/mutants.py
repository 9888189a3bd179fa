"""Mutation testing: ``python fuzzing/mutants.py [FOLDER ...] [--count 300] [--seed TEXT] [--commits RANGE]``.

Draws mutants of each part of the code, runs each against the tests of its module, the other tests of the part and seeds
of the simulator, and writes the result of each mutant to --json and --table. The seed is the hash of the commit if none
is given. Mutants that break no rule are in equivalent_mutants.tsv, with the reason, and are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import mutant_targets
import mutation
from mutant_targets import ROOT, TARGETS
from mutation import Mutant

EQUIVALENT = Path(__file__).parent / "equivalent_mutants.tsv"
CONTROLLED = 20  # mutants for each control
KILLERS = ("tests of the module", "other tests", "conversations", "simulator", "time limit")
Result = Mapping[str, Any]


def candidates(folder: str) -> list[Mutant]:
    """Return all mutants of a part of the code."""
    found: list[Mutant] = []
    for path in mutant_targets.sources(TARGETS[folder]):
        found += mutation.mutants_of(path, (ROOT / path).read_text("utf-8"))
    return found


def drawn(mutants: Sequence[Mutant], count: int, seed: str) -> list[Mutant]:
    """Draw mutants with a seed, in random order, so that the first ones are a sample too."""
    return Random(seed).sample(mutants, min(count, len(mutants)))  # noqa: S311


def changed_lines(commits: str) -> dict[str, set[int]]:
    """Return the lines of each file that a commit, or a range of commits, has added or changed."""
    spec = commits if ".." in commits else f"{commits}^..{commits}"
    command = ["git", "diff", "--unified=0", "--no-color", spec, "--", "*.py"]
    return added_lines(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)  # noqa: S603


def added_lines(diff: str) -> dict[str, set[int]]:
    """Return the numbers of the lines of each file that a diff without context adds."""
    lines: dict[str, set[int]] = {}
    path = ""
    for line in diff.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ ").removeprefix("b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, number = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + number))
    return lines


def equivalent() -> dict[str, str]:
    """Return the mutants that break no rule: identity -> reason."""
    rows = [line.split("\t") for line in EQUIVALENT.read_text("utf-8").splitlines() if line and line[0] != "#"]
    return {row[0]: row[1] for row in rows}


def with_controls(mutants: Sequence[Mutant]) -> list[Mutant]:
    """Add a control after every CONTROLLED-th mutant: the same function without a change, which no test may detect."""
    result: list[Mutant] = []
    for number, mutant in enumerate(mutants, 1):
        result += [mutant] if number % CONTROLLED else [mutant, mutant.control]
    return result


def run(folder: str, mutants: Sequence[Mutant], minutes: float, at_once: int) -> list[Result]:
    """Run the mutants of one part of the code in a separate process, ``at_once`` of them side by side. After
    ``minutes``, no further mutant is begun.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        given, results = Path(scratch) / "mutants.json", Path(scratch) / "results.jsonl"
        given.write_text(json.dumps([asdict(mutant) for mutant in mutants]), encoding="utf-8")
        command = [sys.executable, __file__, "--serve", str(given), "--results", str(results), folder]
        command += ["--minutes", str(minutes), "--at-once", str(at_once)]
        environment = {**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": f"{scratch}/hypothesis"}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
        lines = results.read_text("utf-8").splitlines() if results.exists() else []
        if done.returncode or not lines or (len(lines) != len(mutants) and minutes == inf):
            sys.exit(f"{folder}: {len(lines)} of {len(mutants)} mutants were run\n{done.stdout[-4000:]}")
        return [json.loads(line) for line in lines]


def serve(folder: str, given: str, results: str, minutes: float, at_once: int) -> int:
    """Run the server of mutants for one part of the code, in this process."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    import mutant_server

    mutants = [Mutant(**each) for each in json.loads(Path(given).read_text("utf-8"))]
    return mutant_server.serve(TARGETS[folder], mutants, Path(results), 60 * minutes, at_once)


def check_controls(folder: str, results: Sequence[Result]) -> None:
    """Print the number of controls, and the tests that failed once only. Raises: SystemExit if a control was killed."""
    controls = [each for each in results if Mutant(**each["mutant"]).is_control]
    if killed := [each for each in controls if each["by"] != "survived"]:
        text = "\n".join(f"{Mutant(**each['mutant'])}: {each['by']}, {each['first']}" for each in killed)
        sys.exit(f"{folder}: tests fail without a change, so that the results mean nothing:\n{text}")
    unstable = sorted({name for each in results for name in each["unstable"]})
    sys.stdout.write(f"{folder}: {len(controls)} controls survived; {len(unstable)} tests failed once only\n")
    sys.stdout.writelines(f"  unstable: {name}\n" for name in unstable)


def counted(results: Iterable[Result], known: Mapping[str, str]) -> dict[str, int]:
    """Count the verdicts. Equivalent mutants that survived are counted separately; controls are not counted."""
    counts: Counter[str] = Counter()
    for result in results:
        if Mutant(**result["mutant"]).is_control:
            continue
        listed = result["by"] == "survived" and Mutant(**result["mutant"]).identity in known
        counts["equivalent" if listed else result["by"]] += 1
    return dict(counts)


def row(name: str, counts: Mapping[str, int]) -> str:
    """Return one row of the table."""
    total = sum(counts.values()) - counts.get("equivalent", 0)
    killed = sum(counts.get(by, 0) for by in KILLERS)
    numbers = [sum(counts.values()), *(counts.get(by, 0) for by in (*KILLERS, "survived", "equivalent"))]
    share = f"{100 * killed / total:.1f} %" if total else "-"
    return f"| {name} | {' | '.join(map(str, numbers))} | {share} |"


COLUMNS = (
    *("mutants", "killed by tests of the module", "by other tests", "by conversations", "by the simulator"),
    *("at a limit", "survived", "equivalent", "killed"),
)


def head(first: str) -> str:
    """Return the head of a table. ``first``: name of the first column."""
    return f"| {first} | {' | '.join(COLUMNS)} |\n|---{'|--:' * len(COLUMNS)}|"


def table(folders: Mapping[str, Sequence[Result]], known: Mapping[str, str]) -> str:
    """Return the table in Markdown: a row for each part."""
    return table_of({folder: counted(results, known) for folder, results in folders.items()})


def table_of(parts: Mapping[str, Mapping[str, int]]) -> str:
    """Return the table of counts that :func:`summary` has kept."""
    total: Counter[str] = Counter()
    for counts in parts.values():
        total.update(counts)
    return "\n".join([head("part"), *(row(part, counts) for part, counts in parts.items()), row("all", total)]) + "\n"


def files_table(files: Mapping[str, Mapping[str, int]]) -> str:
    """Return the table of the files of a part. ``files``: path -> counts, as from :func:`by_file`."""
    return "\n".join([head("file"), *(row(f"`{path}`", counts) for path, counts in files.items())]) + "\n"


def by_file(results: Sequence[Result], known: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Return the counts of each file."""
    files: dict[str, list[Result]] = {}
    for result in results:
        files.setdefault(result["mutant"]["path"], []).append(result)
    return {path: counted(each, known) for path, each in sorted(files.items())}


def summary(folders: Mapping[str, Sequence[Result]], known: Mapping[str, str], seed: str) -> dict[str, Any]:
    """Return the counts of each part and file, the survivors, and for each part the commit, the average time of a
    mutant, and the number of controls.
    """
    results = [each for results in folders.values() for each in results]
    survivors = [Mutant(**each["mutant"]) for each in results if each["by"] == "survived"]
    survivors = [mutant for mutant in survivors if not mutant.is_control]
    return {
        "seed": seed,
        "of_parts": {folder: about(each) for folder, each in folders.items()},
        "parts": {folder: counted(each, known) for folder, each in folders.items()},
        "files": {folder: by_file(each, known) for folder, each in folders.items()},
        "survivors": [str(mutant) for mutant in survivors if mutant.identity not in known],
    }


def about(results: Sequence[Result]) -> dict[str, Any]:
    """Return the commit, the average seconds of a mutant, and the number of controls of one part."""
    return {
        "commit": commit(),
        "seconds": round(sum(each["seconds"] for each in results) / max(1, len(results)), 2),
        "controls": sum(Mutant(**each["mutant"]).is_control for each in results),
    }


def keep(path: Path, kept: Mapping[str, Any]) -> None:
    """Add a run to a file of results; a part that the file has for the same seed is replaced.

    Runs from before ``of_parts`` have one commit, seconds and controls, of the parts that were added last.
    """
    runs = json.loads(path.read_text("utf-8"))["runs"] if path.exists() else []
    same = next((run for run in runs if run["seed"] == kept["seed"]), None)
    if same is None:
        runs.append(kept)
    else:
        replaced = {file for part in kept["parts"] for file in same["files"].get(part, ())}
        remaining = [each for each in same["survivors"] if each.partition(":")[0] not in replaced]
        for name in ("of_parts", "parts", "files"):
            same[name] = same.get(name, {}) | kept[name]
        same["survivors"] = sorted({*remaining, *kept["survivors"]})
    path.write_text(json.dumps({"runs": runs}, indent=1) + "\n", encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help=", ".join(TARGETS))
    parser.add_argument("--count", type=int, default=300, help="mutants of each part")
    parser.add_argument("--seed", default="", help="the hash of the commit if none is given")
    parser.add_argument("--commits", default="", help="only lines that a commit, or a range A..B, has changed")
    parser.add_argument("--minutes", type=float, default=inf, help="time of each part; what is not run is not counted")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="mutants that run side by side")
    parser.add_argument("--log", type=Path, help="file of all verdicts: a line of JSON for each")
    parser.add_argument("--json", type=Path, help="file of the results")
    parser.add_argument("--table", type=Path, help="file of the table")
    parser.add_argument("--list", action="store_true", help="print the drawn mutants and run none")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--results", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if unknown := set(given.folders) - set(TARGETS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))} (possible: {', '.join(TARGETS)})")
    return given


def chosen(folder: str, count: int, seed: str, commits: str) -> list[Mutant]:
    """Return the mutants of a part that are run."""
    mutants = candidates(folder)
    if commits:
        lines = changed_lines(commits)
        mutants = [mutant for mutant in mutants if mutant.line in lines.get(mutant.path, ())]
    return drawn(mutants, count, seed)


def commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603


def main() -> int:
    given = arguments()
    if given.serve:
        return serve(given.folders[0], given.serve, given.results, given.minutes, given.at_once)
    known, seed = equivalent(), given.seed or commit()
    folders: dict[str, list[Result]] = {}
    for folder in given.folders or TARGETS:
        mutants = chosen(folder, given.count, seed, given.commits)
        if given.list:
            in_order = sorted(mutants, key=lambda each: (each.path, each.number))
            sys.stdout.writelines(f"{mutant}\n" for mutant in in_order)
        elif mutants:
            folders[folder] = results = run(folder, with_controls(mutants), given.minutes, given.at_once)
            if given.log:
                with given.log.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(each) + "\n" for each in results)
            check_controls(folder, results)
            survivors = [Mutant(**each["mutant"]) for each in results if each["by"] == "survived"]
            for mutant in survivors:
                if not mutant.is_control and mutant.identity not in known:
                    sys.stdout.write(f"survived: {mutant}\n")
            sys.stdout.flush()
    text = "\n".join([*(files_table(by_file(each, known)) for each in folders.values()), table(folders, known)])
    text = text if folders else ""
    sys.stdout.write(text)
    if given.table:
        given.table.write_text(text, encoding="utf-8")
    if given.json:
        keep(given.json, summary(folders, known, seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
