"""The server of mutants: a pytest plugin that collects the tests of one target once, then forks for each mutant.

A child replaces the code of one function in all places that refer to it, and runs the tests that execute the mutated
statement until one of them fails: the fast tests first, and the tests of the module before other tests. The run without
a mutant determines which tests execute which statement. A mutant of code that runs on import needs a new import of the
package: its child imports the package and the tests of the module again. With a mutant that no test detects, the child
also runs the conversations and the seeds of the simulator that execute the statement.

A test that fails runs a second time with the mutant, in another child, and must fail again. Several mutants run at the
same time, because many tests wait.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import mmap
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import partial
from math import inf
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Protocol

import mutant_targets
import pytest
import trio
from mutant_targets import ROOT, Target
from mutation import NOTE, Key, codes, instrumented

LEAST_SECONDS = 2.0  # of CPU for each test and each child
SLOWER = 5  # times the CPU time that a test needs without a mutant
LEAST_WAIT = 20.0  # seconds for each test: the machine has other work
LONGER = 10  # times the time that a test needs without a mutant
OWN_FIRST = 10  # how many times longer a test of the module may take to run before another test
MEMORY = 2**30  # bytes more than the server has
MOST_SECONDS = 20.0  # of CPU, without a mutant: the tests of one mutant
EVENTS = 400  # of each seed
OTHER, OWN = "other tests", "tests of the module"
CONVERSATIONS, SIMULATOR, LIMIT, SURVIVED = "conversations", "simulator", "time limit", "survived"
AT_ONCE = 8  # conversations: most of them only wait
AT_ONCE_WITHOUT_MUTANT = 24
Called = set[tuple[str, int]]  # file and first line of functions
_OF_TASK: ContextVar[Called | None] = ContextVar("_OF_TASK", default=None)  # calls of one conversation


class Change(Protocol):
    """A change of one file; the attributes are those of Mutant."""

    @property
    def path(self) -> str: ...
    @property
    def function(self) -> str: ...
    @property
    def first_line(self) -> int: ...
    @property
    def statement(self) -> int: ...
    def tree(self, source: str) -> ast.Module: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant.

    Attributes:
        mutant: the mutant.
        by: tests of the module, other tests, conversations, simulator, time limit, or survived.
        first: the first test or seed that detected it.
        tried: number of tests that could detect it.
        seconds: time of its children.
        cpu: CPU time of its children, in seconds.
        unstable: tests that failed once, and then passed with the same mutant; they do not count.
    """

    mutant: Change
    by: str
    first: str
    tried: int
    seconds: float
    cpu: float
    unstable: list[str]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A run without a mutant: the tests that pass, and the lines that each executes.

    Attributes:
        seconds: CPU time of each test, by its id.
        waits: time of each test, by its id.
        callers: ids of the tests that execute a statement, by its file and first line.
        conversations: names of the conversations that execute a statement.
        seeds: schemes and seeds of the simulator that execute a statement.
    """

    seconds: dict[str, float]
    waits: dict[str, float]
    callers: dict[tuple[str, int], list[str]]
    conversations: dict[tuple[str, int], list[str]]
    seeds: dict[tuple[str, int], list[tuple[str, int]]]


class MutantServer:
    """Collect with pytest, then run the mutants instead of the tests, in the given order.

    Args:
        target: the part of the code.
        mutants: the mutants.
        report: function that is called with each verdict, in the order in which the mutants end.
        seconds: after this time, no mutant is begun.
        at_once: number of mutants that run side by side.
    """

    def __init__(
        self,
        target: Target,
        mutants: Sequence[Change],
        report: Callable[[Verdict], None],
        seconds: float = inf,
        at_once: int = 1,
    ) -> None:
        self._target, self._mutants, self._report, self._seconds = target, mutants, report, seconds
        self._at_once = at_once
        self._failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = list({item.nodeid: item for item in items if not _is_of_processes(item)}.values())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        create_folder(session.config)
        self._alive = Alive.of(self._target)
        self._items = {item.nodeid: item for item in session.items}
        gc.collect()
        gc.freeze()
        baseline = in_child(self._measure, 1_200, 3_600)
        if baseline is None:
            raise pytest.UsageError("the tests without a mutant need too much time")
        if not baseline["callers"]:
            raise pytest.UsageError("no test calls a function of the mutated files")
        tests, conversations, seeds = (
            {(file, line): callers for file, line, callers in baseline[kind]}
            for kind in ("callers", "conversations", "seeds")
        )
        names = list(baseline["seconds"])
        tests = {line: [names[number] for number in numbers] for line, numbers in tests.items()}
        self._baseline = Baseline(baseline["seconds"], baseline["waits"], tests, conversations, seeds)
        if baseline["failed"]:
            sys.stderr.write(f"not used, fail without a mutant: {', '.join(baseline['failed'])}\n")
        until = time.monotonic() + self._seconds
        works = (partial(self._judge, mutant) for mutant in self._mutants if time.monotonic() < until)
        for verdict in side_by_side(works, self._at_once):
            self._report(Verdict(self._mutants[verdict.pop("number")], **verdict))
        return True

    def _measure(self) -> dict[str, Any]:
        """Run all tests without a mutant, noting the functions of the target that each calls."""
        called = self._alive.instrument(mutant_targets.sources(self._target))
        seconds: dict[str, float] = {}
        waits: dict[str, float] = {}
        callers: dict[tuple[str, int], list[int]] = {}  # numbers of the tests in ``seconds``
        items = list(self._items.values())
        for item, following in zip(items, [*items[1:], None], strict=True):
            self._alive.clear_caches()
            called.clear()
            begun, begun_at = time.process_time(), time.monotonic()
            if self._passes(item, following):
                for line in called:
                    callers.setdefault(line, []).append(len(seconds))
                seconds[item.nodeid] = time.process_time() - begun
                waits[item.nodeid] = time.monotonic() - begun_at
        seeds: dict[tuple[str, int], list[tuple[str, int]]] = {}
        for scheme, count in self._target.simulated.items() if self.stages else ():
            for seed in range(count):
                called.clear()
                if broken := self._simulate([(scheme, seed)]):
                    self._failed.append(broken)
                for function in called:
                    seeds.setdefault(function, []).append((scheme, seed))
        conversations = trio.run(self._conversations_by_function) if self.stages else {}
        kinds: dict[str, Mapping[tuple[str, int], Sequence[Any]]] = {
            "callers": callers,
            "conversations": conversations,
            "seeds": seeds,
        }
        return {
            "seconds": seconds,
            "waits": waits,
            "failed": self._failed,
            **{kind: [(*function, names) for function, names in found.items()] for kind, found in kinds.items()},
        }

    async def _conversations_by_function(self) -> dict[tuple[str, int], list[str]]:
        """Play all conversations about the part; return those that call each function."""
        from mockbroker.lab.conform.runner import run as play

        by_function: dict[tuple[str, int], list[str]] = {}
        free = trio.CapacityLimiter(AT_ONCE_WITHOUT_MUTANT)

        async def play_one(file: Path) -> None:
            called: Called = set()
            _OF_TASK.set(called)
            async with free:
                await play([file], None, lambda _: None, at_once=1)
            for function in called:
                by_function.setdefault(function, []).append(file.name)

        files = {file for path in mutant_targets.sources(self._target) for file in mutant_targets.conversations(path)}
        async with trio.open_nursery() as nursery:
            for file in sorted(files):
                nursery.start_soon(play_one, file)
        return by_function

    def _passes(self, item: pytest.Item, following: pytest.Item | None) -> bool:
        before = len(self._failed)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return len(self._failed) == before

    def _judge(self, mutant: Change) -> dict[str, Any]:
        """Run one mutant; return the fields of its verdict, with its number among the mutants."""
        begun = time.monotonic()
        own, others = self.tests(mutant)
        by, first, unstable = self._first_failure(mutant, own, others)
        for stage in self.stages if by == SURVIVED and mutant.function else ():
            work = partial(stage, self, mutant)
            outcomes = [in_child(work, MOST_SECONDS * SLOWER, 300) or [LIMIT, ""]]
            if outcomes[0][0] != SURVIVED:
                outcomes.append(in_child(work, MOST_SECONDS * SLOWER, 300) or [LIMIT, ""])
            by, first = outcomes[-1]
            if len(outcomes) == 2 and by == SURVIVED:
                unstable.append(outcomes[0][1])
            if by != SURVIVED:
                break
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "number": next(number for number, each in enumerate(self._mutants) if each is mutant),
            "by": by,
            "first": first,
            "tried": len(own) + len(others),
            "seconds": time.monotonic() - begun,
            "cpu": used.ru_utime + used.ru_stime,
            "unstable": unstable,
        }

    def _first_failure(self, mutant: Change, own: list[str], others: list[str]) -> tuple[str, str, list[str]]:
        """Return the stage and the first test that fails twice with a mutant, and the tests that failed once."""
        unstable: list[str] = []
        if not mutant.function or not self._alive.can_plant(mutant):
            work = partial(self._run_again, mutant, own)
            limit = LEAST_SECONDS + SLOWER * (MOST_SECONDS + sum(self._baseline.seconds[name] for name in own))
            outcome = in_child(work, limit, LONGER * limit) or [LIMIT, ""]
            if outcome[0] != SURVIVED:
                first, outcome = outcome, in_child(work, limit, LONGER * limit) or [LIMIT, ""]
                unstable += [first[1]] if outcome[0] == SURVIVED else []
            return outcome[0], outcome[1], unstable
        cost, of_module = self._baseline.seconds, set(own)
        names = sorted([*own, *others], key=lambda name: cost[name] * (1 if name in of_module else OWN_FIRST))
        while names:
            failed, _ = self._run(mutant, names)
            if failed is None:
                break
            again, is_limit = self._run(mutant, [names[failed]])
            if again is not None:
                by = LIMIT if is_limit else OWN if names[failed] in of_module else OTHER
                return by, names[failed], unstable
            unstable.append(names[failed])
            names = names[failed + 1 :]
        return SURVIVED, "", unstable

    def tests(self, mutant: Change) -> tuple[list[str], list[str]]:
        """Return the ids of the tests that execute the mutated statement: tests of the module, and other tests."""
        files = mutant_targets.tests_of(mutant.path)
        names = list(self._baseline.seconds)
        if mutant.function:
            names = self._baseline.callers.get((mutant.path, mutant.statement or mutant.first_line), [])
        names = sorted(names, key=lambda name: self._baseline.seconds[name])
        own = [name for name in names if name.startswith(files)] if files else []
        others = [name for name in names if name not in set(own)] if mutant.function else []
        budget, chosen = MOST_SECONDS, set()
        for name in (*own, *others):
            budget -= self._baseline.seconds[name]
            if budget > 0:
                chosen.add(name)
        return [name for name in own if name in chosen], [name for name in others if name in chosen]

    def _run(self, mutant: Change, names: Sequence[str]) -> tuple[int | None, bool]:
        """Run tests with a mutant in a child; return the index of the first that fails or meets a limit (None without
        one), and True if it met a limit.
        """
        seconds, waits = self._baseline.seconds, self._baseline.waits
        current = mmap.mmap(-1, 4)  # index of the running test, which the child writes

        def work() -> int:
            self._alive.plant(mutant)
            items = [self._items[name] for name in names]
            for number, (item, following) in enumerate(zip(items, [*items[1:], None], strict=True)):
                current[:] = number.to_bytes(4, "big")
                cpu, wait = seconds[item.nodeid], waits[item.nodeid]
                end_after(LEAST_SECONDS + SLOWER * cpu, LEAST_WAIT + LONGER * wait)
                if not self._passes(item, following):
                    return number
            return -1

        limit = LEAST_SECONDS * 2 + SLOWER * sum(seconds[name] for name in names)
        failed = in_child(work, limit, 2 * LEAST_WAIT + LONGER * sum(waits[name] for name in names))
        if failed is None:
            return int.from_bytes(current[:], "big"), True
        return (None if failed == -1 else failed), False

    def _run_again(self, mutant: Change, own: list[str]) -> list[str]:
        """Import the package with the mutant, and run the files of its module's tests, then others, the fast ones."""
        forget_imports()
        sys.meta_path.insert(0, MutantFinder(mutant))
        files = sorted({name.partition("::")[0] for name in own})
        for stage, chosen in ((OWN, files), (OTHER, self._fast_files(set(files)))):
            if chosen and pytest.main([*OPTIONS, "-x", *chosen]) != pytest.ExitCode.OK:
                return [stage, "with a new import"]
        return [SURVIVED, ""]

    def _fast_files(self, without: set[str]) -> list[str]:
        """Return the test files of the target that need the least time, of MOST_SECONDS in all."""
        totals: dict[str, float] = {}
        for name, seconds in self._baseline.seconds.items():
            file = name.partition("::")[0]
            totals[file] = totals.get(file, 0.0) + seconds
        chosen, budget = [], MOST_SECONDS
        for file in sorted(totals.keys() - without, key=lambda each: totals[each]):
            budget -= totals[file]
            if budget > 0:
                chosen.append(file)
        return chosen

    def _run_conversations(self, mutant: Change) -> list[str]:
        """Play the recorded conversations of a real Kafka about the part of the module."""
        from mockbroker.lab.conform.runner import Outcome
        from mockbroker.lab.conform.runner import run as play

        outcomes: list[Outcome] = []
        names = self._baseline.conversations.get((mutant.path, mutant.first_line), ())
        files = [file for file in mutant_targets.conversations(mutant.path) if file.name in names]
        if files and self._alive.plant(mutant):
            trio.run(partial(play, files, None, outcomes.append, at_once=AT_ONCE))
        for outcome in outcomes:
            if outcome.verdict != "ok" and not outcome.is_hurried:
                return [CONVERSATIONS, outcome.name]
        return [SURVIVED, ""]

    def _run_simulator(self, mutant: Change) -> list[str]:
        seeds = self._baseline.seeds.get((mutant.path, mutant.first_line), ())
        broken = self._simulate(seeds) if seeds and self._alive.plant(mutant) else ""
        return [SIMULATOR, broken] if broken else [SURVIVED, ""]

    @staticmethod
    def _simulate(seeds: Sequence[tuple[str, int]]) -> str:
        """Run seeds of the simulator until an invariant does not hold; return it, or "". ``seeds``: scheme and seed."""
        from mockbroker.lab.simulation.run import run
        from mockbroker.lab.simulation.schemes import SCHEMES

        for scheme, seed in seeds:
            outcome = run(SCHEMES[scheme](seed, EVENTS))
            if outcome.broken:
                return f"{scheme}, seed {seed}: {outcome.broken}"
        return ""

    stages: tuple[Callable[[MutantServer, Change], list[str]], ...] = (_run_conversations, _run_simulator)


OPTIONS = (
    "-q",
    "--assert=plain",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--hypothesis-seed=0",
    "--no-header",
    "--no-summary",
)


def serve(target: Target, mutants: Sequence[Change], results: Path, seconds: float = inf, at_once: int = 1) -> int:
    """Run the mutants of one target, and write a line of JSON for each.

    Args:
        target: the part of the code.
        mutants: the mutants, in the order in which they run.
        results: file to write.
        seconds: time after which no further mutant is begun.
        at_once: number of mutants that run side by side.

    Returns: the exit code of pytest.
    """
    tame_hypothesis()
    tests = [path for path in target.tests if (ROOT / path).exists()]
    folders = tuple(tests)
    own = {test for mutant in mutants for test in mutant_targets.tests_of(mutant.path)}
    tests += sorted(test for test in own if not test.startswith(folders))
    with results.open("w", encoding="utf-8") as file:

        def report(verdict: Verdict) -> None:
            file.write(json.dumps(asdict(verdict)) + "\n")
            file.flush()

        server = MutantServer(target, mutants, report, seconds, at_once)
        basetemp = results.with_suffix(".tmp")
        return int(pytest.main([*OPTIONS, f"--basetemp={basetemp}", *tests], plugins=[server]))


def tame_hypothesis() -> None:
    """Store no failing examples, because they would also fail with other mutants, and do not shrink examples."""
    from hypothesis.database import DirectoryBasedExampleDatabase
    from hypothesis.internal.conjecture import engine

    DirectoryBasedExampleDatabase.save = lambda *_: None  # type: ignore[method-assign]
    engine.MAX_SHRINKS = 1


@dataclass(frozen=True, slots=True)
class Alive:
    """All functions and caches of a target that exist when its modules are imported."""

    functions: list[FunctionType]
    caches: list[Any]

    @classmethod
    def of(cls, target: Target) -> Alive:
        for path in mutant_targets.sources(target):
            importlib.import_module(module_name(path))
        for name in ("conform.runner", "simulation.run", "simulation.schemes"):
            importlib.import_module(f"mockbroker.lab.{name}")
        prefixes = tuple(str(ROOT / source) for source in target.sources)
        gc.unfreeze()  # a conftest may have frozen what was collected, which get_objects() would leave out
        everything = gc.get_objects()
        functions = [each for each in everything if isinstance(each, FunctionType)]
        caches = [each for each in everything if isinstance(each, functools._lru_cache_wrapper)]
        return cls([each for each in functions if each.__code__.co_filename.startswith(prefixes)], caches)

    def instrument(self, paths: Sequence[str]) -> set[tuple[str, int]]:
        """Instrument all functions of some files. Return the set to which they add each executed (file, line)."""
        called: set[tuple[str, int]] = set()
        for path in paths:
            module = importlib.import_module(module_name(path))
            note = partial(_note, called, path)
            setattr(module, NOTE, note)
            file = str(ROOT / path)
            tree = instrumented((ROOT / path).read_text("utf-8"))
            self.replace(file, dict(codes(compile(tree, file, "exec", dont_inherit=True))))
        return called

    def replace(self, file: str, new: Mapping[Key, CodeType]) -> bool:
        """Give the functions of a file other code; False if none of them can have it."""
        replaced = False
        for function in self.functions:
            code = function.__code__
            key = (code.co_qualname, code.co_firstlineno)
            if code.co_filename != file or key not in new:
                continue
            if new[key].co_freevars != code.co_freevars:
                return False
            function.__code__ = new[key]
            replaced = True
        self.clear_caches()
        return replaced

    def clear_caches(self) -> None:
        """Clear the caches of all functions with a cache."""
        for cached in self.caches:
            cached.cache_clear()

    def plant(self, mutant: Change) -> bool:
        """Change the functions of a mutant; False if none of them can be changed."""
        return self.replace(str(ROOT / mutant.path), self._new_codes(mutant))

    def can_plant(self, mutant: Change) -> bool:
        """Return True if the functions of a mutant exist, and can have its code."""
        new, file = self._new_codes(mutant), str(ROOT / mutant.path)
        codes_of = [each.__code__ for each in self.functions if each.__code__.co_filename == file]
        keys = {(code.co_qualname, code.co_firstlineno): code for code in codes_of}
        same = [keys[key].co_freevars == code.co_freevars for key, code in new.items() if key in keys]
        return bool(same) and all(same)

    @staticmethod
    def _new_codes(mutant: Change) -> dict[Key, CodeType]:
        file = str(ROOT / mutant.path)
        tree = mutant.tree((ROOT / mutant.path).read_text("utf-8"))
        new = dict(codes(compile(tree, file, "exec", dont_inherit=True)))
        outermost = (mutant.function, mutant.first_line)
        return {outermost: new[outermost], **dict(codes(new[outermost]))}


def _note(called: Called, path: str, line: int) -> None:
    of_task = _OF_TASK.get()
    (called if of_task is None else of_task).add((path, line))


def module_name(path: str) -> str:
    """Return the dotted name of a module."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class MutantFinder(importlib.abc.MetaPathFinder):
    """Import the mutated module from its changed syntax tree."""

    def __init__(self, mutant: Change) -> None:
        self._mutant = mutant
        self._name = module_name(mutant.path)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002 - the signature of importlib
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None
        spec.loader = MutantLoader(fullname, str(ROOT / self._mutant.path), self._mutant)
        return spec


class MutantLoader(importlib.machinery.SourceFileLoader):
    """Compile a module with one mutant."""

    def __init__(self, fullname: str, path: str, mutant: Change) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - the signature of importlib
        source = Path(self.path).read_text("utf-8")
        return compile(self._mutant.tree(source), self.path, "exec", dont_inherit=True)


def forget_imports() -> None:
    """Remove the modules of this repository from ``sys.modules``, so that they are imported again."""
    here, installed = str(ROOT), str(ROOT / ".venv")
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if file.startswith(here) and not file.startswith(installed) and name != "__main__":
            del sys.modules[name]


def _is_of_processes(item: pytest.Item) -> bool:
    return any(part in mutant_targets.PROCESSES for part in item.nodeid.split("::")[0].split("/"))


def create_folder(config: Any) -> None:
    """Create the folder of ``tmp_path``, before the first fork.

    Otherwise, each child that needs the folder first deletes it, and the files of other children with it.

    Args:
        config: pytest's configuration.
    """
    config._tmp_path_factory.getbasetemp()


def in_child(work: Callable[[], Any], cpu: float, wait: float) -> Any:
    """Run work in a copy of this process; return its result, or None after the limits (seconds) or a crash."""
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        os.close(readable)
        _be_child(work, writable, cpu)
    os.close(writable)
    try:
        text = b"".join(_read(readable, time.monotonic() + wait))
    finally:
        os.close(readable)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return json.loads(text) if text else None


def side_by_side(works: Iterable[Callable[[], Any]], at_once: int) -> Iterator[Any]:
    """Run functions in forked processes, and yield their results in the order in which they end.

    Args:
        works: functions without arguments.
        at_once: maximum number of processes at a time.

    Raises: RuntimeError if a process ends without a result.
    """
    running: dict[int, tuple[int, bytes]] = {}  # by pipe: process, what it has written
    waiting = iter(works)
    while True:
        while len(running) < at_once and (work := next(waiting, None)):
            readable, child = _begin(work)
            running[readable] = child, b""
        if not running:
            return
        for readable in select.select(list(running), [], [])[0]:
            child, text = running[readable]
            if part := os.read(readable, 2**16):
                running[readable] = child, text + part
                continue
            del running[readable]
            os.close(readable)
            os.waitpid(child, 0)
            if not text:
                raise RuntimeError(f"process {child}, which runs a mutant, has ended without a result")
            yield json.loads(text)


def _begin(work: Callable[[], Any]) -> tuple[int, int]:
    """Call ``work`` in a forked process. Return the file descriptor to read its result from, and the process id."""
    readable, writable = os.pipe()
    child = os.fork()
    if child:
        os.close(writable)
        return readable, child
    try:
        os.close(readable)
        result = json.dumps(work()).encode()
        while result:
            result = result[os.write(writable, result) :]
    except BaseException:
        traceback.print_exc()
    os._exit(0)


def end_after(cpu: float, wait: float) -> None:
    """End this process after ``cpu`` seconds of CPU time from now, or after ``wait`` seconds, whichever is first."""
    signal.setitimer(signal.ITIMER_PROF, cpu)
    signal.setitimer(signal.ITIMER_REAL, wait)


def _be_child(work: Callable[[], Any], writable: int, cpu: float) -> None:
    """The child: never returns."""
    os.setsid()
    with contextlib.suppress(BaseException):
        soft = int(cpu) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (soft, soft + 2))
        size = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        empty = os.open(os.devnull, os.O_RDWR)
        for each in (0, 1, 2):
            os.dup2(empty, each)
        result = json.dumps(work()).encode()
        while result:
            result = result[os.write(writable, result) :]
    os._exit(0)


def _read(readable: int, until: float) -> Iterator[bytes]:
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([readable], [], [], left)
        if not ready or not (part := os.read(readable, 2**16)):
            return
        yield part
