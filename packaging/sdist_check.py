"""Check that the sdist is complete: a wheel is built from it, and the tests in it pass, away from this checkout.

    python packaging/sdist_check.py dist

unpacks dist/kwire-VERSION.tar.gz into a temporary folder, creates an environment there, installs the folder with the
extra ``pytest`` and runs the tests of the sdist. It needs a package index, or ``--offline``: the environment then
has the packages of the Python that runs this script.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path


def check(sdist: Path, folder: Path, *, offline: bool) -> None:
    """Build, install and test an sdist in a folder. Raises: subprocess.CalledProcessError."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    home = folder / "venv"
    inherited = ["--system-site-packages"] if offline else []
    subprocess.run([sys.executable, "-m", "venv", *inherited, str(home)], check=True)  # noqa: S603
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    if offline:
        wheels = folder / "wheels"
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
        subprocess.run(build, cwd=unpacked, check=True)  # noqa: S603
        (wheel,) = wheels.iterdir()
        (packages,) = (home / "lib").glob("python3.*/site-packages")
        (packages / "outer.pth").write_text("\n".join(each for each in sys.path if "site-packages" in each), "utf-8")
        install = ["--no-index", "--no-deps", "--force-reinstall", str(wheel)]
    else:
        install = [f"{unpacked}[pytest]", "hypothesis", "pytest-trio"]
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *install], check=True)  # noqa: S603
    located = "import kwire, mockbroker; print(kwire.__file__)"
    where = subprocess.run([str(python), "-P", "-c", located], cwd=folder, check=True, capture_output=True, text=True)  # noqa: S603
    if not Path(where.stdout.strip()).is_relative_to(home):
        raise RuntimeError(f"the tests would use {where.stdout.strip()}, not the installed package")
    for tree in ("kwire", "mockbroker"):
        (unpacked / tree).rename(unpacked / f"{tree}.source")  # the tests use what is installed
    subprocess.run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=unpacked, check=True)  # noqa: S603


if __name__ == "__main__":
    (found,) = Path(sys.argv[1]).glob("kwire-*.tar.gz")
    with tempfile.TemporaryDirectory() as temporary:
        check(found.resolve(), Path(temporary), offline="--offline" in sys.argv)
