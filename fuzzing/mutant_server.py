"""The server of mutants: a plugin of pytest that collects the tests of one target once, then forks for each mutant.

A child replaces the code of one function in all places that refer to it, and runs the tests that call this function,
one after the other until one fails: first those of the module, then the others, the fast ones first. Which tests call
which function comes from a run without a mutant. A mutant of code that runs on import needs a new import of the
package: its child imports the package and the tests of the module again. A mutant that no test notices meets the
conversations and the seeds of the simulator that call its function.
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
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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

LEAST_SECONDS = 5.0  # of CPU for each test and each child
SLOWER = 5  # times the CPU that a test needs without a mutant
WAITING = 4  # seconds of waiting for each second of CPU: the machine has other work
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
    def tree(self, source: str) -> ast.Module: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant.

    Attributes:
        mutant: the mutant.
        by: tests of the module, other tests, conversations, simulator, time limit, or survived.
        first: the first test or seed that noticed it.
        tried: number of tests that could notice it.
        seconds: time of its child.
    """

    mutant: Change
    by: str
    first: str
    tried: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Baseline:
    """A run without a mutant: tests that pass, in the order of their time, and what each calls.

    Attributes:
        seconds: CPU time of each test, by its id.
        callers: ids of the tests that call a function, by its file and first line.
        conversations: names of the conversations that call a function.
        seeds: schemes and seeds of the simulator that call a function.
    """

    seconds: dict[str, float]
    callers: dict[tuple[str, int], list[str]]
    conversations: dict[tuple[str, int], list[str]]
    seeds: dict[tuple[str, int], list[tuple[str, int]]]


class MutantServer:
    """Collect with pytest, then run the mutants instead of the tests, in the given order, until ``seconds`` have
    passed.
    """

    def __init__(
        self, target: Target, mutants: Sequence[Change], report: Callable[[Verdict], None], seconds: float = inf
    ) -> None:
        self._target, self._mutants, self._report, self._seconds = target, mutants, report, seconds
        self._failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = list({item.nodeid: item for item in items if not _is_of_processes(item)}.values())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
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
        self._baseline = Baseline(baseline["seconds"], tests, conversations, seeds)
        if baseline["failed"]:
            sys.stderr.write(f"not used, fail without a mutant: {', '.join(baseline['failed'])}\n")
        until = time.monotonic() + self._seconds
        for mutant in self._mutants:
            if time.monotonic() > until:
                break
            self._report(self._judge(mutant))
        return True

    def _measure(self) -> dict[str, Any]:
        """Run all tests without a mutant, noting the functions of the target that each calls."""
        called = self._alive.instrument(mutant_targets.sources(self._target))
        seconds: dict[str, float] = {}
        callers: dict[tuple[str, int], list[str]] = {}
        items = list(self._items.values())
        for item, following in zip(items, [*items[1:], None], strict=True):
            called.clear()
            begun = time.process_time()
            if self._passes(item, following):
                seconds[item.nodeid] = time.process_time() - begun
                for function in called:
                    callers.setdefault(function, []).append(item.nodeid)
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

    def _judge(self, mutant: Change) -> Verdict:
        own, others = self.tests(mutant)
        expected = sum(self._baseline.seconds[name] for name in (*own, *others))
        if not mutant.function:
            expected += MOST_SECONDS
        begun = time.monotonic()
        limit = LEAST_SECONDS + SLOWER * expected
        work = partial(self._run, mutant, own, others)
        outcome = in_child(work, limit, limit * WAITING) or [LIMIT, ""]
        for stage in self.stages:
            if outcome[0] == SURVIVED and mutant.function:
                outcome = in_child(partial(stage, self, mutant), MOST_SECONDS * SLOWER, 300) or [LIMIT, ""]
        return Verdict(mutant, outcome[0], outcome[1], len(own) + len(others), time.monotonic() - begun)

    def tests(self, mutant: Change) -> tuple[list[str], list[str]]:
        """Return the ids of the tests of the module, and of others, that call the mutated function."""
        files = mutant_targets.tests_of(mutant.path)
        names = list(self._baseline.seconds)
        if mutant.function:
            names = self._baseline.callers.get((mutant.path, mutant.first_line), [])
        names = sorted(names, key=lambda name: self._baseline.seconds[name])
        own = [name for name in names if name.startswith(files)] if files else []
        others = [name for name in names if name not in set(own)] if mutant.function else []
        budget, chosen = MOST_SECONDS, set()
        for name in (*own, *others):
            budget -= self._baseline.seconds[name]
            if budget > 0:
                chosen.add(name)
        return [name for name in own if name in chosen], [name for name in others if name in chosen]

    def _run(self, mutant: Change, own: list[str], others: list[str]) -> list[str]:
        if not mutant.function or not self._alive.plant(mutant):
            return self._run_again(mutant, own)
        names = [*own, *others]
        items = [self._items[name] for name in names]
        for number, (item, following) in enumerate(zip(items, [*items[1:], None], strict=False)):
            end_after(LEAST_SECONDS + SLOWER * self._baseline.seconds[names[number]])
            if not self._passes(item, following):
                return [OWN if number < len(own) else OTHER, names[number]]
        return [SURVIVED, ""]

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


def serve(target: Target, mutants: Sequence[Change], results: Path, seconds: float = inf) -> int:
    """Run the mutants of one target for so many seconds; write a line of JSON for each. Returns the exit code of
    pytest.
    """
    tests = [path for path in target.tests if (ROOT / path).exists()]
    folders = tuple(tests)
    own = {test for mutant in mutants for test in mutant_targets.tests_of(mutant.path)}
    tests += sorted(test for test in own if not test.startswith(folders))
    with results.open("w", encoding="utf-8") as file:

        def report(verdict: Verdict) -> None:
            file.write(json.dumps(asdict(verdict)) + "\n")
            file.flush()

        server = MutantServer(target, mutants, report, seconds)
        basetemp = results.with_suffix(".tmp")
        return int(pytest.main([*OPTIONS, f"--basetemp={basetemp}", *tests], plugins=[server]))


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
        """Let every function of some files note that it is called: file and first line, in the returned set."""
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
        for cached in self.caches:
            cached.cache_clear()
        return replaced

    def plant(self, mutant: Change) -> bool:
        """Change the functions of a mutant; False if none of them can be changed."""
        file = str(ROOT / mutant.path)
        tree = mutant.tree((ROOT / mutant.path).read_text("utf-8"))
        new = dict(codes(compile(tree, file, "exec", dont_inherit=True)))
        outermost = (mutant.function, mutant.first_line)
        return self.replace(file, {outermost: new[outermost], **dict(codes(new[outermost]))})


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


def end_after(cpu: float) -> None:
    """End this process after so many seconds of CPU from now, or WAITING times as many seconds."""
    signal.setitimer(signal.ITIMER_PROF, cpu)
    signal.setitimer(signal.ITIMER_REAL, cpu * WAITING)


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
