"""All planted bugs that break a rule of Kafka: ``python fuzzing/planted_bugs.py [--keep] [--table] [TEXT ...]``.

Plants each bug of planted_rules.py in a child of one pytest and looks for a test of the named file that fails. With
--keep the results are written to planted_bugs.json. --table only prints the table of all bugs, with those that the
simulator notices. TEXT: only bugs whose description contains it.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "fuzzing")]

import mutation  # noqa: E402
from mutant_targets import Target  # noqa: E402
from planted_rules import RULE_BUGS, RuleBug  # noqa: E402

CAUGHT = ROOT / "tests/mockbroker/lab/simulation/caught.json"
FOUND = Path(__file__).parent / "planted_bugs.json"
SIMULATION = ROOT / "docs" / "simulation.md"
OWN = ("raised", "I13", "I14", "I16")  # rules of this project, not of Kafka


@dataclass(frozen=True, slots=True)
class Replacement:
    """The change of a file that plants a bug, as a mutant server runs it."""

    bug: RuleBug
    path: str
    function: str
    first_line: int
    statement: int = 0  # 0: of all calls of the function

    @classmethod
    def of(cls, bug: RuleBug) -> Replacement:
        source = (ROOT / bug.module).read_text("utf-8")
        line = source[: source.index(bug.old)].count("\n") + 1
        for lines, (name, first_line) in mutation.outermost_functions(source):
            if line in lines:
                return cls(bug, bug.module, name, first_line)
        return cls(bug, bug.module, "", 0)

    def tree(self, source: str) -> ast.Module:
        """Return the syntax tree of the file with the bug."""
        return ast.parse(source.replace(self.bug.old, self.bug.new))


def run(bugs: Sequence[RuleBug], scratch: Path) -> dict[str, str]:
    """Plant each bug; return the test that noticed it, by bug, without those that no test noticed."""
    import mutant_server
    import pytest

    class PlantServer(mutant_server.MutantServer):
        """Run the tests of the named file only."""

        stages = ()

        def tests(self, mutant: mutant_server.Change) -> tuple[list[str], list[str]]:
            assert isinstance(mutant, Replacement)
            own, others = super().tests(mutant)
            return [name for name in (*own, *others) if name.startswith(mutant.bug.tests)], []

    noticed: dict[str, str] = {}

    def report(verdict: mutant_server.Verdict) -> None:
        assert isinstance(verdict.mutant, Replacement)
        what = verdict.mutant.bug.what
        if verdict.by != mutant_server.SURVIVED:
            noticed[what] = verdict.first or verdict.by
        sys.stderr.write(f"{what}: {verdict.first or verdict.by}\n")

    named = {bug.tests for bug in bugs}
    tests = sorted(path for path in named if not any(path.startswith(f"{other}/") for other in named))
    target = Target(tuple(sorted({bug.module for bug in bugs})), tuple(tests))
    server = PlantServer(target, [Replacement.of(bug) for bug in bugs], report)
    pytest.main([*mutant_server.OPTIONS, f"--basetemp={scratch}", *tests], plugins=[server])
    return noticed


def invariants() -> dict[str, str]:
    """Return the invariants of the simulator: name -> rule, as in docs/simulation.md."""
    return dict(re.findall(r"^\| (I\d+) \| (.+?) \|", SIMULATION.read_text("utf-8"), re.MULTILINE)) | {
        "raised": "no request and no restart ends with an internal error"
    }


def table() -> str:
    """Return the table of all bugs in Markdown: those that tests find, then those that the simulator finds."""
    from tests.mockbroker.lab.simulation.planted import BUGS

    found = json.loads(FOUND.read_text("utf-8"))
    caught = json.loads(CAUGHT.read_text("utf-8"))
    rules, schemes = invariants(), {bug.name: bug.scheme for bug in BUGS}
    lines = ["| bug | rule | found by |", "|---|---|---|"]
    for bug in RULE_BUGS:
        file, _, name = found[bug.what].partition("::")
        lines.append(
            f"| {bug.what} | {bug.rule} | `{name.partition('[')[0]}` in {file.removeprefix('tests/mockbroker/')} |"
        )
    for name, seed in caught.items():
        rule = f"{rules[seed['invariant']]} ({seed['invariant']})"
        lines.append(f"| {name.replace('_', ' ')} | {rule} | seed {seed['seed']} of `{schemes[name]}` |")
    return "\n".join(lines) + "\n"


def summary() -> str:
    """Return how many bugs there are, and what finds them."""
    caught = json.loads(CAUGHT.read_text("utf-8"))
    by_tests, by_simulator = len(json.loads(FOUND.read_text("utf-8"))), len(caught)
    own = [bug for bug in RULE_BUGS if bug.rule.startswith("docs/")]
    own += [each for each in caught.values() if each["invariant"] in OWN]
    total = by_tests + by_simulator
    return (
        f"Of {total} bugs, the simulator finds {by_simulator}, and named tests find {by_tests}. {total - len(own)} "
        f"bugs break a rule of Kafka, and {len(own)} break a rule of this project: no internal errors, bounded memory, "
        "a complete journal, equal runs of a seed, fault rules."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="write the results to planted_bugs.json")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="only bugs whose description contains it")
    given = parser.parse_args()
    if given.table:
        sys.stdout.write(f"{table()}\n{summary()}\n")
        return 0
    bugs = [bug for bug in RULE_BUGS if not given.texts or any(text in bug.what for text in given.texts)]
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory(prefix="planted-") as scratch:
        noticed = run(bugs, Path(scratch) / "tests")
    missed = [bug.what for bug in bugs if bug.what not in noticed]
    if given.keep:
        before = json.loads(FOUND.read_text("utf-8")) if FOUND.exists() else {}
        noticed = {bug.what: test for bug in RULE_BUGS if (test := noticed.get(bug.what) or before.get(bug.what))}
        FOUND.write_text(json.dumps(noticed, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write("".join(f"no test notices: {what}\n" for what in missed))
    sys.stdout.write(f"{len(bugs) - len(missed)} of {len(bugs)} planted bugs are noticed by the named tests\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
