"""Groups after their only broker was killed and restarted, compared with recordings of real brokers."""

from __future__ import annotations

import json

import pytest
from golden import ROOT
from oracle.failover_scripts import STORIES, TOPIC, tell_all

from mockbroker import run_cluster

RELEASES = {"4.2.0": "4.2", "3.9.1": "3.9"}
CONFIG = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}


@pytest.mark.parametrize("release", RELEASES)
def test_failover_equals_the_recorded_broker(release: str) -> None:
    with run_cluster(topics={TOPIC: 3}, config=CONFIG, as_version=RELEASES[release]) as cluster:

        def die_and_return() -> None:
            cluster.kill_broker(0)
            cluster.start_broker(0)

        recorded = tell_all((cluster.nodes[0].host, cluster.nodes[0].port), release, die_and_return)
    assert recorded == json.loads((ROOT / "fixtures" / "failover" / f"{release}.json").read_text("utf-8"))


def test_every_scenario_was_recorded() -> None:
    recorded = {
        name for release in RELEASES for name in json.loads((ROOT / f"fixtures/failover/{release}.json").read_text())
    }
    assert recorded == set(STORIES)
