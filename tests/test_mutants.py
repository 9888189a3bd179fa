"""Mutants: the kinds of changes, their selection and counts, and the replacement of code in a running process."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import mutant_server
import mutant_targets
import mutants
import mutation
import pytest
from mutant_targets import TARGETS, Target
from mutation import Mutant

from mockbroker.groups import expiry

CHANGES = [  # a function's body, all its mutants
    ("return a < b", ["a < b -> a <= b"]),
    ("return a is None", ["a is None -> a is not None"]),
    ("return not a", ["not a -> a"]),
    ("return a and b", ["a and b -> a or b", "a and b -> b", "a and b -> a"]),
    ("return a + 1", ["a + 1 -> a - 1", "1 -> 2"]),
    ("return 'x' + a", []),
    ("return True", ["True -> False"]),
    ("return min(a, b)", ["min(a, b) -> max(a, b)"]),
    ("return E.NONE", ["E.NONE -> E.UNKNOWN_SERVER_ERROR"]),
    ("return [x for x in a if x]", ["[x for x in a if x] -> without its condition x"]),
    ("return replace(a, b=c, d=e)", ["replace(a, b=c, d=e) -> without b", "replace(a, b=c, d=e) -> without d"]),
    ("a.b = c", ["a.b = c -> (removed)"]),
    ("a.pop()", ["a.pop() -> (removed)"]),
    ("a = b", []),
    ("if a: pass", ["a -> not (a)"]),
    ("raise ValueError(1)", ["raise ValueError(1) -> (removed)"]),
    ("assert a > b", []),
    ("raise AssertionError(1)", []),
    ("...", []),
    ("log.warning(1)", []),
    ("'text'", []),
    ("for x in a: continue", ["continue -> break"]),
]


@pytest.mark.parametrize(("body", "changes"), CHANGES, ids=[body for body, _ in CHANGES])
def test_mutants_of_a_function(body: str, changes: list[str]) -> None:
    source = f"def f(a, b, c, e):\n    {body}\n"
    result = mutation.mutants_of("x.py", source)
    assert [f"{each.before} -> {each.after or '(removed)'}" for each in result] == changes
    assert all((each.function, each.first_line, each.line) == ("f", 1, 2) for each in result)
    texts = {ast.unparse(mutation.mutated(source, each.number)) for each in result}
    assert len(texts - {ast.unparse(ast.parse(source))}) == len(changes), "each changes the tree, in its own way"


SCOPES = [  # source, outermost function, its first line as in its code object
    ("X = 1", "", 0),
    ("class A:\n    n: int = 1", "", 0),
    ("class A:\n    @cache\n    def f(self):\n        return 1", "A.f", 2),
    ("def f():\n    def g():\n        return 1\n    return g", "f", 1),
    ("X = lambda: 1", "<lambda>", 1),
    ("def f(a=1): pass", "", 0),
]


@pytest.mark.parametrize(("source", "function", "first_line"), SCOPES)
def test_function_of_a_mutant(source: str, function: str, first_line: int) -> None:
    (found,) = mutation.mutants_of("x.py", source)
    assert (found.function, found.first_line) == (function, first_line)
    if function:
        assert (function, first_line) in dict(mutation.codes(compile(source, "x.py", "exec")))


STATEMENTS = [  # body of a function that begins in line 1, the lines of the statements of its mutants
    ("if a:\n        return b + c\n    return (c or\n        e)", [2, 3, 4, 4, 4]),
    ("return f(\n        lambda: a + b)", [3]),  # a lambda may be called later, or never
    ("return f(a,\n        b + c)", [2]),
    ("def g():\n        return a + b\n    return g", [3]),
    ("yield from a", [1]),  # without it, the function is no generator
    ("try:\n        pass\n    except a and b:\n        c += 1", [2, 2, 2, 5, 5]),
]


@pytest.mark.parametrize(("body", "lines"), STATEMENTS)
def test_statement_of_a_mutant(body: str, lines: list[int]) -> None:
    source = f"def f(a, b, c, e):\n    {body}\n"
    assert [each.statement for each in mutation.mutants_of("x.py", source)] == lines


@pytest.mark.parametrize(("body", "lines"), STATEMENTS)
def test_instrumented_code_notes_the_statement_of_each_mutant(body: str, lines: list[int]) -> None:
    noted = ast.unparse(mutation.instrumented(f"def f(a, b, c, e):\n    {body}\n"))
    assert all(f"{mutation.NOTE}({line})" in noted for line in lines)


def test_instrumented_functions_note_their_calls() -> None:
    source = "def f(a):\n    'text'\n    return [g(x) for x in a]\ng = lambda x: x + 1\ndef h(): return f([1])\n"
    called: list[int] = []
    names: dict[str, object] = {mutation.NOTE: called.append}
    exec(compile(mutation.instrumented(source), "x.py", "exec"), names)
    assert names["h"]() == [2]  # type: ignore[operator]
    assert called == [5, 5, 1, 2, 3, 4, 4]


EXPIRY = "mockbroker/groups/expiry.py"
EXPIRY_SOURCE = (mutant_targets.ROOT / EXPIRY).read_text("utf-8")


def test_planting_changes_functions_that_others_have_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = expiry.next_expiry
    monkeypatch.setattr(imported, "__code__", imported.__code__)  # undone at the end
    change = next(each for each in mutation.mutants_of(EXPIRY, EXPIRY_SOURCE) if each.before == "start is not None")
    before = imported.__code__
    alive = mutant_server.Alive([imported], [])
    assert alive.plant(change)
    assert imported.__code__ != before


def test_a_seed_draws_the_same_mutants() -> None:
    every = mutants.candidates("sasl")
    assert mutants.drawn(every, 10, "a") == mutants.drawn(every, 10, "a") != mutants.drawn(every, 10, "b")
    assert len(mutants.drawn(every, 10**6, "a")) == len(every) > 100


def test_the_tests_of_a_module() -> None:
    assert mutant_targets.tests_of(EXPIRY) == ("tests/mockbroker/groups/test_expiry.py",)
    classic = mutant_targets.tests_of("mockbroker/groups/classic/join.py")
    assert classic == tuple(f"tests/mockbroker/groups/classic/test_{name}.py" for name in ("machine", "stateful"))


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_what_is_mutated_is_there(target: Target) -> None:
    assert all((mutant_targets.ROOT / path).exists() for path in (*target.sources, *target.tests))
    assert mutant_targets.sources(target)


def test_modules_have_conversations() -> None:
    names = [path.name for path in mutant_targets.conversations("mockbroker/transactions/rules.py")]
    assert "txn_kip890_fenced_end.json.gz" in names
    assert mutant_targets.conversations("kwire/codec.py") == []


def test_every_equivalent_mutant_exists() -> None:
    paths = {identity.partition(" ")[0] for identity in mutants.equivalent()}
    sources = {path: (mutant_targets.ROOT / path).read_text("utf-8") for path in paths}
    every = {mutant.identity for path, text in sources.items() for mutant in mutation.mutants_of(path, text)}
    assert set(mutants.equivalent()) - every == set(), "the code has changed: remove the row, or write it again"
    rows = mutants.EQUIVALENT.read_text("utf-8").splitlines()
    columns = [row.split("\t") for row in rows if row[0] != "#"]
    assert all(len(row) == 3 and all(row) for row in columns), "identity, reason, judgement of a second reader"
    assert len(columns) == len(mutants.equivalent()), "each mutant has one row"


def test_counts_and_share_of_killed_mutants() -> None:
    same, other = (Mutant("a.py", number, 1, "f", 1, "x", "y" * number) for number in (1, 2))
    verdicts = [(same, "survived"), (other, "survived"), (other, "simulator"), (other, "tests of the module")]
    results = [{"mutant": asdict(mutant), "by": by} for mutant, by in verdicts]
    known = {same.identity: "the same"}
    assert mutants.table({"f": results}, known).splitlines()[-1] == "| all | 4 | 1 | 0 | 0 | 1 | 0 | 1 | 1 | 66.7 % |"
    assert mutants.by_file(results, known) == {
        "a.py": {"equivalent": 1, "survived": 1, "simulator": 1, "tests of the module": 1}
    }


def kept_run(seed: str, part: str, commit: str, *survivors: str) -> dict[str, object]:
    """Return the summary of a run of one part."""
    of_parts = {part: {"commit": commit, "seconds": 1.5, "controls": 2}}
    counts = {"survived": len(survivors)}
    listed = [f"{part}.py:1 {each}" for each in survivors]
    files = {part: {f"{part}.py": counts}}
    return {"seed": seed, "of_parts": of_parts, "parts": {part: counts}, "files": files, "survivors": listed}


def test_kept_runs_are_by_seed(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    for seed, part in (("a", "x"), ("b", "x"), ("a", "y")):
        mutants.keep(file, kept_run(seed, part, "1", "f: 1 -> 2"))
    runs = json.loads(file.read_text("utf-8"))["runs"]
    assert [(run["seed"], list(run["parts"])) for run in runs] == [("a", ["x", "y"]), ("b", ["x"])]
    assert runs[0]["survivors"] == ["x.py:1 f: 1 -> 2", "y.py:1 f: 1 -> 2"]


def test_a_part_that_is_kept_later_changes_no_other_part(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    for part, commit in (("x", "1"), ("y", "2")):
        mutants.keep(file, kept_run("a", part, commit))
    (run,) = json.loads(file.read_text("utf-8"))["runs"]
    assert run["of_parts"] == {
        "x": {"commit": "1", "seconds": 1.5, "controls": 2},
        "y": {"commit": "2", "seconds": 1.5, "controls": 2},
    }


def test_a_part_that_is_kept_again_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    for part, commit, survivor in (("x", "1", "f: 1 -> 2"), ("y", "1", "g: 1 -> 2"), ("x", "2", "h: 1 -> 2")):
        mutants.keep(file, kept_run("a", part, commit, survivor))
    (run,) = json.loads(file.read_text("utf-8"))["runs"]
    assert run["of_parts"]["x"]["commit"] == "2"
    assert run["survivors"] == ["x.py:1 h: 1 -> 2", "y.py:1 g: 1 -> 2"]


def test_the_summary_of_a_run_is_by_part() -> None:
    mutant = Mutant("a.py", 1, 1, "f", 1, "x", "y")
    results = {
        part: [{"mutant": asdict(each), "by": "survived", "seconds": seconds} for each in (mutant, mutant.control)]
        for part, seconds in (("x", 1.0), ("y", 3.0))
    }
    of_parts = mutants.summary(results, {}, "seed")["of_parts"]
    assert {part: (each["seconds"], each["controls"]) for part, each in of_parts.items()} == {"x": (1, 1), "y": (3, 1)}


DIFF = """+++ b/a.py
@@ -1,0 +2,3 @@ def f():
@@ -9 +12 @@
+++ b/b.py
@@ -4,2 +4,0 @@
"""


def test_lines_that_a_commit_has_changed() -> None:
    assert mutants.added_lines(DIFF) == {"a.py": {2, 3, 4, 12}, "b.py": set()}


async def test_a_child_that_does_not_end_is_killed() -> None:
    def for_ever() -> None:
        while True:
            pass

    assert mutant_server.in_child(for_ever, 1, 0.2) is None
    assert mutant_server.in_child(lambda: ["x"], 5, 60) == ["x"]


def test_mutants_side_by_side() -> None:
    numbers = mutant_server.side_by_side([partial(int, number) for number in range(5)], 2)
    assert sorted(numbers) == [0, 1, 2, 3, 4]
    with pytest.raises(RuntimeError, match="has ended without a result"):
        list(mutant_server.side_by_side([partial(os._exit, 0)], 2))


def test_children_do_not_delete_the_files_of_others(tmp_path: Path) -> None:
    folder = tmp_path / "results.tmp"
    options = {"given_basetemp": folder, "retention_count": 3, "retention_policy": "all", "trace": print}
    factory = pytest.TempPathFactory(**options, _ispytest=True)  # type: ignore[arg-type]
    mutant_server.create_folder(SimpleNamespace(_tmp_path_factory=factory))
    (folder / "file").touch()
    assert mutant_server.in_child(lambda: str(factory.getbasetemp()), 5, 60) == str(folder)
    assert (folder / "file").exists()


def mutant_of_expiry() -> Mutant:
    return mutation.mutants_of(EXPIRY, EXPIRY_SOURCE)[0]


def test_controls_change_nothing() -> None:
    mutant = mutant_of_expiry()
    trees = [mutant.control.tree(EXPIRY_SOURCE), ast.parse(EXPIRY_SOURCE), mutant.tree(EXPIRY_SOURCE)]
    control, unchanged, changed = map(ast.unparse, trees)
    assert control == unchanged != changed
    controlled = mutants.with_controls([mutant] * 41)
    assert [number for number, each in enumerate(controlled) if each.is_control] == [20, 41]
    assert controlled[20].statement == mutant.statement


def test_results_with_a_killed_control_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    control = {"mutant": asdict(mutant_of_expiry().control), "first": "test_a", "unstable": []}
    with pytest.raises(SystemExit, match="tests fail without a change"):
        mutants.check_controls("groups", [{**control, "by": "other tests"}])
    survived = {**control, "by": "survived", "unstable": ["test_b"]}
    mutants.check_controls("groups", [survived])
    assert capsys.readouterr().out == "groups: 1 controls survived; 1 tests failed once only\n  unstable: test_b\n"
    assert mutants.counted([survived], {}) == {}


class ServerWithOutcomes(mutant_server.MutantServer):
    """A server whose tests a, b and c cost the same, and whose runs end as given."""

    def __init__(self, outcomes: list[tuple[int | None, bool]]) -> None:
        super().__init__(TARGETS["groups"], [], lambda _: None)
        self._baseline = mutant_server.Baseline(dict.fromkeys("abc", 1.0), {}, {}, {}, {})
        self._alive = mutant_server.Alive([expiry.next_expiry], [])
        self.outcomes, self.runs = outcomes, []  # type: ignore[var-annotated]

    def _run(self, mutant: mutant_server.Change, names: Sequence[str]) -> tuple[int | None, bool]:
        self.runs.append("".join(names))
        return self.outcomes.pop(0)


@pytest.mark.parametrize(
    ("outcomes", "runs", "expected"),
    [
        ([(None, False)], ["abc"], ("survived", "", [])),
        ([(1, False), (0, False)], ["abc", "b"], ("other tests", "b", [])),
        ([(0, True), (0, True)], ["abc", "a"], ("time limit", "a", [])),
        ([(0, False), (None, False), (0, False), (0, False)], ["abc", "a", "bc", "b"], ("other tests", "b", ["a"])),
        ([(2, False), (None, False)], ["abc", "c"], ("survived", "", ["c"])),
    ],
)
def test_a_test_that_fails_once_does_not_count(
    outcomes: list[tuple[int | None, bool]], runs: list[str], expected: tuple[str, str, list[str]]
) -> None:
    server = ServerWithOutcomes(outcomes)
    mutant = next(each for each in mutation.mutants_of(EXPIRY, EXPIRY_SOURCE) if each.function == "next_expiry")
    assert server._first_failure(mutant, [], list("abc")) == expected
    assert server.runs == runs
