"""mockbroker.consumer in one group with kafka-python, confluent-kafka and Java, on the mock and on real brokers."""

from __future__ import annotations

from functools import partial

import pytest
from interop.gathering import Gathering, planned
from interop.stage import ASSIGNORS, MARKS, OURS

OTHERS = ("kafka-python", "confluent-kafka", "java")
pytestmark = [*MARKS, pytest.mark.clients(*OTHERS)]
more = partial(pytest.param, marks=pytest.mark.more)


def others(assignor: str) -> list[str]:
    """Return the other clients that have this assignor."""
    return [family for family in OTHERS if assignor in ASSIGNORS[family]]


@pytest.mark.parametrize(
    "assignor",
    ["range", more("roundrobin"), more("sticky"), pytest.param("cooperative-sticky", marks=pytest.mark.real)],
)
def test_our_consumer_leads(gathering: Gathering, assignor: str) -> None:
    """Our consumer joins first and assigns; the others apply its assignments. One member leaves, another joins."""
    stage = gathering
    (ours,) = stage.come(OURS, assignor=assignor)
    stage.check_reading()
    members = stage.come(*others(assignor), assignor=assignor)
    stage.check_reading()
    assert planned(ours) == stage.shares_held()
    stage.go(members[-1])
    stage.check_reading()
    stage.come(OURS, assignor=assignor)
    stage.check_reading()
    assert planned(ours) == stage.shares_held()
    stage.check_none_lost_or_twice()


@pytest.mark.parametrize("assignor", [more("range"), more("roundrobin"), more("sticky"), "cooperative-sticky"])
def test_our_consumer_follows(gathering: Gathering, assignor: str) -> None:
    """Another member leads and leaves; our consumer leaves and rejoins."""
    stage = gathering
    first, *rest = others(assignor)
    (leader,) = stage.come(first, assignor=assignor)
    (ours,) = stage.come(OURS, assignor=assignor)
    stage.come(*rest, assignor=assignor)
    stage.check_reading()
    assert ours.plans == [], "another leads"
    stage.go(leader)
    stage.check_reading()
    stage.go(ours)
    stage.come(OURS, assignor=assignor)
    stage.check_reading()
    stage.check_none_lost_or_twice()


@pytest.mark.since("4.0")
@pytest.mark.parametrize("assignor", ["uniform", more("range")])
def test_consumer_protocol(gathering: Gathering, assignor: str) -> None:
    """KIP-848: the broker assigns, and all clients revoke and add partitions in the same way."""
    stage = gathering
    how = {"assignor": assignor, "protocol": "consumer"}
    (ours,) = stage.come(OURS, **how)
    members = stage.come("confluent-kafka", "java", **how)
    stage.check_reading()
    stage.go(members[0])
    stage.come(OURS, **how)
    stage.check_reading()
    stage.go(ours)
    stage.check_reading()
    stage.check_none_lost_or_twice()


@pytest.mark.since("4.0")
@pytest.mark.parametrize(("classic", "consumer"), [more(OURS, "java"), more("java", OURS), more(OURS, OURS)])
def test_group_migrates_between_protocols(gathering: Gathering, classic: str, consumer: str) -> None:
    """The group migrates from the classic protocol to the consumer protocol and back, member by member."""
    stage = gathering
    old = stage.come(classic, assignor="range")
    stage.check_reading()
    new = stage.come(consumer, protocol="consumer")
    stage.check_reading()
    stage.go(old[0])
    stage.check_reading()
    stage.come(classic, assignor="range")
    stage.check_reading()
    stage.go(new[0])
    stage.check_reading()
    stage.check_none_lost_or_twice()
