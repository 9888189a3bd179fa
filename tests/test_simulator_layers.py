from __future__ import annotations

import pytest
import simulator_layers
from golden import ROOT

CLIENT, QUEUE = "mockbroker/lab/simulation/clients/client.py", "mockbroker/lab/simulation/queue.py"


@pytest.mark.parametrize(
    ("paths", "layer"),
    [
        pytest.param([CLIENT, QUEUE], "clients", id="innermost"),
        pytest.param(["/usr/lib/python3.11/ssl.py", CLIENT, QUEUE], "clients", id="library"),
        pytest.param(["/usr/lib/python3.11/gc.py"], simulator_layers.OTHER, id="no layer"),
        pytest.param(["mockbroker/lab/simulation/shell.py"], "network of messages, process, faults", id="general"),
    ],
)
def test_a_sample_counts_for_the_innermost_layer(paths: list[str], layer: str) -> None:
    assert simulator_layers.layer_of(paths) == layer


def test_all_samples_of_a_run_are_in_the_table() -> None:
    samples = simulator_layers.sample("calm", 1)
    assert samples.total() > 0
    first, _, *rows = simulator_layers.table_of({"calm": samples}).splitlines()
    assert first.endswith("| `calm` |")
    assert sum(float(row.split("|")[2]) for row in rows) == pytest.approx(100, abs=1)


def test_docs_have_a_row_for_each_layer() -> None:
    text = (ROOT / "docs" / "simulation.md").read_text("utf-8")
    assert [layer for layer in simulator_layers.LAYERS.values() if f"| {layer} |" not in text] == []
