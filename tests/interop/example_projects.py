"""The folders examples/go, examples/java and examples/node: how to fetch their packages and to run their tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from interop.programs import Program, built_program, go, run
from need import need

EXAMPLES = Path(__file__).parents[2] / "examples"
DRY_RUN = "-Djunit.platform.execution.dryRun.enabled=true"  # JUnit finds the tests but does not run them
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True)
class Project:
    """An example project. ``command`` runs the tests in ``folder``, with additional environment variables."""

    command: list[str]
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)


def project(language: str) -> Project:
    """Fetch the packages of a project if they are not there. Skips, or in CI fails, where that is impossible."""
    return PROJECTS[language]()


def _fetched(language: str, fetch: Callable[[Path, Path], None]) -> Path:
    """Return the folder of the fetched and built files. ``fetch``: is called with the project's folder and this one."""
    (target,) = built_program(
        Program(str(EXAMPLES / language), fetch, lambda target: [str(target)]), f"example-{language}"
    )
    return Path(target)


def _java() -> Project:
    need("javac", "it compiles the example for Java")
    mvn = need("mvn", "it runs the example for Java")

    def fetch(sources: Path, target: Path) -> None:  # a dry run fetches all that a run needs, also JUnit's launcher
        run([mvn, *words(target, DRY_RUN)], sources)

    def words(target: Path, *options: str) -> list[str]:
        return ["-q", "-B", "test", f"-Dtarget={target}", f"-DargLine={' '.join([QUICK_JVM, *options])}"]

    return Project([mvn, "-o", *words(_fetched("java", fetch))], EXAMPLES / "java", {"MAVEN_OPTS": QUICK_JVM})


def _go() -> Project:
    def fetch(sources: Path, target: Path) -> None:
        run([command, "test", "-c", "-o", str(target / "orders.test"), "."], sources, GOTOOLCHAIN="auto")

    command = go()
    _fetched("go", fetch)
    return Project([command, "test", "-count=1", "."], EXAMPLES / "go", {"GOTOOLCHAIN": "auto"})


def _node() -> Project:
    need("node", "it runs the example for Node.js")
    npm = need("npm", "it fetches kafkajs")

    def fetch(sources: Path, target: Path) -> None:
        shutil.copytree(sources, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
        run([npm, "ci", "--no-audit", "--no-fund"], target)

    return Project([npm, "test"], _fetched("node", fetch))


PROJECTS: dict[str, Callable[[], Project]] = {"go": _go, "java": _java, "node": _node}
