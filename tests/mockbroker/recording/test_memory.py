from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
from mockbroker.recording.memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
for _ in range(200):
    buffers = [bytes(200_000) for _ in range(20)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="an option of glibc")
def test_freed_memory_is_used_again() -> None:
    keep, default = (
        int(subprocess.run([sys.executable, "-c", SCRIPT, each], capture_output=True, check=True, text=True).stdout)
        for each in ("keep", "default")
    )
    assert keep < default / 3
