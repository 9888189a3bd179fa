"""The thresholds of the garbage collector in server processes."""

from __future__ import annotations

import subprocess
import sys

from mockbroker.cli.garbage_collection import COLLECT_AFTER

CODE = """
import gc
from mockbroker.cli.garbage_collection import limit_garbage_collection
limit_garbage_collection()
print(gc.get_threshold(), gc.get_freeze_count() > 1000)
"""


def test_collections_are_rare_and_skip_what_is_imported() -> None:
    printed = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout
    assert printed == f"{COLLECT_AFTER} True\n"
