"""Functions that run ``kwire`` and ``mockbroker`` in a test: in this process, or in a separate one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from click.testing import CliRunner, Result

from kwire.cli import main


def kwire(*arguments: str, given: str | bytes = "") -> Result:
    """Run the command in this process. An exception of the command is raised here."""
    return CliRunner().invoke(main, arguments, input=given, catch_exceptions=False, prog_name="kwire")


def command(*arguments: str, module: str = "kwire", **options: Any) -> subprocess.Popen[bytes]:
    """Start the command as a process with pipes; ``module``: kwire or mockbroker."""
    environment: Mapping[str, str] = options.pop("env", os.environ)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-m", module, *arguments], env=environment, **pipes | options)


def printed(result: Result) -> list[Any]:
    """Return the JSON lines on stdout."""
    return [json.loads(line) for line in result.stdout.splitlines()]
