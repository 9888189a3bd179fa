"""The steps of the Containerfile in a plain folder, for machines without a container engine.

    python packaging/container_steps.py [FOLDER]

Each stage has a folder in place of ``/``, and the Python that runs this script as its base image. COPY and RUN use the
folder instead of ``/opt`` and ``/tmp``. Then ENTRYPOINT and CMD are started, HEALTHCHECK must succeed, and SIGTERM must
end the process with code 0. Prints the size that the image adds to its base. USER, the base images and the network of a
container are not checked.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONTAINERFILE = ROOT / "packaging" / "container" / "Containerfile"
MOVED = re.compile(r"(?<![\w.*])/(?=(?:opt|tmp)/)")
PATIENCE = 30.0


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Containerfile, as name and arguments."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, arguments = line.strip().partition(" ")
            yield name.upper(), arguments.strip()


class Image:
    """The stages, environment and commands that the instructions of a Containerfile have set.

    Args:
        folder: folder for the stages.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stages: dict[str, Path] = {}
        self.root = folder
        self.environment = dict(os.environ)
        self.start: dict[str, list[str]] = {}

    def step(self, name: str, arguments: str) -> None:
        """Run an instruction. Raises: subprocess.CalledProcessError; ValueError if the instruction is unknown."""
        if name == "FROM":
            alias = arguments.partition(" AS ")[2] or "final"
            self.root = self.stages[alias] = self.folder / alias
            (self.root / "tmp").mkdir(parents=True)
            self.environment = dict(os.environ)
        elif name == "COPY":
            *sources, target = arguments.split()
            self._copy(sources, self._moved(target))
        elif name == "RUN":
            python = Path(sys.executable).parent
            path = {"PATH": f"{python}:{os.environ['PATH']}"}
            subprocess.run(["sh", "-c", self._moved(arguments)], check=True, env=self.environment | path)  # noqa: S603, S607
        elif name == "ENV":
            variable, _, value = arguments.partition("=")
            self.environment[variable] = self._moved(value)
        elif name in ("ENTRYPOINT", "CMD"):
            self.start[name] = json.loads(arguments)
        elif name == "HEALTHCHECK":
            self.start[name] = json.loads(arguments[arguments.index("CMD ") + 4 :])
        elif name not in ("ARG", "USER", "EXPOSE"):
            raise ValueError(f"{name} is an unknown instruction: add it to Image.step of packaging/container_steps.py")

    def _moved(self, text: str) -> str:
        return MOVED.sub(f"{self.root}/", text)

    def _copy(self, sources: list[str], target: str) -> None:
        if sources[0].startswith("--from="):
            origin = self.stages[sources[0].partition("=")[2]]
            shutil.copytree(origin / sources[1].lstrip("/"), target, symlinks=True)
            for script in (Path(target) / "bin").iterdir():  # their first line names the folder of the other stage
                if script.is_file() and not script.is_symlink():
                    script.write_text(script.read_text("utf-8").replace(str(origin), str(self.root)), "utf-8")
            return
        Path(target).mkdir(parents=True, exist_ok=True)
        for pattern in sources:
            for found in sorted(ROOT.glob(pattern)):
                shutil.copy(found, target)

    def run(self) -> None:
        """Start the container's process, wait until it is healthy, and stop it. Raises: RuntimeError."""
        command = self.start["ENTRYPOINT"] + self.start["CMD"]
        process = subprocess.Popen(  # noqa: S603
            [shutil.which(command[0], path=self.environment["PATH"]) or command[0], *command[1:]]
        )
        try:
            deadline = time.monotonic() + PATIENCE
            while subprocess.run(self.start["HEALTHCHECK"], check=False, capture_output=True).returncode:  # noqa: S603
                if time.monotonic() > deadline or process.poll() is not None:
                    raise RuntimeError("the process did not become healthy")
                time.sleep(0.1)
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.returncode:
            raise RuntimeError(f"SIGTERM ended the process with code {process.returncode}, not 0")


def main(folder: Path) -> None:
    if not list((ROOT / "dist").glob("kwire-*.whl")):
        sys.exit("there is no wheel in dist/: python -m hatchling build -t wheel")
    image = Image(folder)
    for name, arguments in instructions(CONTAINERFILE.read_text("utf-8")):
        print(name, arguments)
        image.step(name, arguments)
    image.run()
    size = sum(path.stat().st_size for path in image.root.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"healthy, and ended with code 0; {size / 1e6:.1f} MB beside the base image")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
