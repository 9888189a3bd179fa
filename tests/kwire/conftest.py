from __future__ import annotations

import pytest
from golden import COUNTS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, count in sorted(COUNTS.items()):
        terminalreporter.write_line(f"{count} {what} held to the values of Kafka's own classes")
