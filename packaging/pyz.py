"""mockbroker as one executable file (zipapp) for this platform and this version of Python.

    python packaging/pyz.py dist [WHEEL]

writes dist/mockbroker-VERSION-PLATFORM-pyVERSION.pyz from a wheel, or from this folder, with the extra http. The file
needs a Python of the same version, and no installation: ``python mockbroker-....pyz serve``. At its first start it
unpacks itself to ~/.shiv (or SHIV_ROOT).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from sysconfig import get_platform

ROOT = Path(__file__).parent.parent


def build(folder: Path, source: Path) -> Path:
    """Write the file into a folder, and return its path.

    Args:
        folder: folder for the result; created if it does not exist.
        source: a wheel, or the folder of the project.

    Raises: subprocess.CalledProcessError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    version = re.search(r'__version__ = "(.+)"', (ROOT / "kwire" / "__init__.py").read_text("utf-8"))
    assert version
    python = "{}.{}".format(*sys.version_info)
    path = folder / f"mockbroker-{version[1]}-{get_platform()}-py{python}.pyz"
    shiv = [sys.executable, "-m", "shiv", "--console-script", "mockbroker", "--compressed", "--reproducible"]
    shiv += ["--python", f"/usr/bin/env python{python}", "--output-file", str(path), "--quiet", f"{source}[http]"]
    subprocess.run(shiv, check=True)  # noqa: S603 - our own command
    return path


if __name__ == "__main__":
    made = build(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT)
    print(f"{made}: {made.stat().st_size / 1e6:.1f} MB")
