from __future__ import annotations

from mockbroker.quotas.entity import DEFAULT, Entity, candidates, of_names


def test_names_are_in_the_order_of_kafkas_responses() -> None:
    assert list(Entity("ann", "app").names()) == [("client-id", "app"), ("user", "ann")]
    assert list(Entity(ip=DEFAULT).names()) == [("ip", DEFAULT)]
    assert of_names({"user": DEFAULT, "client-id": "app"}) == Entity(DEFAULT, "app")


def test_most_specific_entity_comes_first() -> None:
    assert [entity for entity, _ in candidates("ann", "app")] == [
        Entity("ann", "app"),
        Entity("ann", DEFAULT),
        Entity("ann"),
        Entity(DEFAULT, "app"),
        Entity(DEFAULT, DEFAULT),
        Entity(DEFAULT),
        Entity(None, "app"),
        Entity(None, DEFAULT),
    ]


def test_clients_share_a_quota_by_their_own_names() -> None:
    shared = dict(candidates("ann", "app"))
    assert shared[Entity(DEFAULT, DEFAULT)] == Entity("ann", "app")
    assert shared[Entity(DEFAULT)] == shared[Entity("ann")] == Entity("ann")
    assert shared[Entity(None, DEFAULT)] == Entity(None, "app")
