"""The option --port, of each command that reads captures."""

from __future__ import annotations

import pytest
from commands import kwire
from tools.captures import CAPTURES

TRACE = str(CAPTURES / "java-4.2.0__kafka-4.2.0__cooperative.pcap.gz")


@pytest.mark.parametrize("verb", ["capture", "groups", "readiness", "top"])
def test_traffic_of_other_ports_is_ignored(verb: str) -> None:
    done = kwire(verb, "--port", "1", TRACE)
    assert done.exit_code == 1
    assert done.stderr == "Error: no Kafka traffic with a broker at port 1 in the captures\n"


def test_port_out_of_range() -> None:
    assert kwire("groups", "--port", "65536", TRACE).exit_code == 2
