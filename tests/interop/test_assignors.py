"""Random groups over several generations, shared out by Apache Kafka's own assignors and by ours: the same lists."""

from __future__ import annotations

from itertools import count

import pytest
from client_groups import shares
from effort import amount
from interop.programs import asked
from interop.stage import MARKS
from random_groups import RandomGroup, decoded

from kwire.assignors import CLIENT, DEFAULT, assignor

pytestmark = MARKS

NAMES = [name for name in CLIENT if name != "sticky-0.11"]
USUAL = amount(100, 300)  # groups, of all assignors together
MOST_BROKEN = 5  # per cent of groups on which Java throws: a former owner takes no part any more; about 0.3 are seen


@pytest.mark.parametrize("name", NAMES)
def test_as_java(name: str, request: pytest.FixtureRequest) -> None:
    wanted = (request.config.getoption("--groups", None) or USUAL) // len(NAMES)
    compared = broken = 0
    for seed in count():
        if compared >= wanted:
            break
        group = RandomGroup(name, seed)
        for number, joined in enumerate(group.rounds()):
            where = f"{name}, seed {seed}, round {number}"
            ours = shares(assignor(name).assign(group.topics, decoded(joined)))
            theirs = asked("java").ask(
                "assign",
                assignor=name,
                generation=group.generation,
                topics=group.racks,
                members=[
                    {"member_id": member_id, "subscription": data.hex(), "instance_id": instance_id}
                    for member_id, (data, instance_id) in joined.items()
                ],
            )
            if theirs.get("threw"):
                assert (theirs["threw"], "sticky" in name) == ("NullPointerException", True), where
                broken += 1
                break
            found = {member_id: [(topic, n) for topic, n in listed] for member_id, listed in theirs["shares"].items()}
            assert ours == found, where
            said = {member_id: data and data.hex() for member_id, data in group.finish(ours).items()}
            assert said == theirs["next"], where
            compared += 1
    assert broken * 100 <= compared * MOST_BROKEN


def test_a_member_carries_the_same_ones_by_default() -> None:
    ours = [{"name": name, "protocols": list(assignor(name).protocols)} for name in DEFAULT]
    assert asked("java").ask("assignors") == ours
