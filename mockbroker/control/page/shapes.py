"""The shape of the document of the live page."""

from __future__ import annotations

from mockbroker.control.resources.clock import CLOCK
from mockbroker.control.resources.connections import CONNECTION
from mockbroker.control.resources.faults import FAULT
from mockbroker.control.resources.groups import GROUP, MEMBER
from mockbroker.control.resources.server import CLUSTER
from mockbroker.control.resources.topics import TOPIC
from mockbroker.control.resources.transactions import TRANSACTION
from mockbroker.control.shapes import Flag, MapOf, Null, Object, Shape, Text, Whole


def sparse(shape: Object, name: str, **replaced: Shape) -> Object:
    """Return a shape (declaration of a JSON value) without null: a key that may be null becomes a key that may be
    absent.

    Args:
        shape: the shape of the object with all its keys.
        name: the name of the new shape.
        replaced: key -> shape, for additional keys and for keys with a different shape.
    """
    required = {key: each for key, each in shape.required.items() if not isinstance(each, Null)}
    nullable = {key: each.of for key, each in shape.required.items() if isinstance(each, Null)}
    return Object({**required, **replaced}, {**nullable, **shape.optional}, name=name, further=shape.further)


STATE = Object(
    {
        "cluster": CLUSTER,
        "clock": CLOCK,
        "groups": MapOf(
            sparse(
                GROUP,
                "StateGroup",
                member_count=Whole(),
                members=MapOf(sparse(MEMBER, "StateMember")),
                offsets=MapOf(MapOf(Object({"offset": Whole()}, {"lag": Whole()}))),
            )
        ),
        "topics": MapOf(
            sparse(
                TOPIC,
                "StateTopic",
                partitions=MapOf(Object({"leader": Whole(-1), "start": Whole(), "end": Whole()})),
                config=MapOf(Text()),
            )
        ),
        "shares": MapOf(
            MapOf(MapOf(Object({"start": Whole(), "lag": Whole(), "acquired": MapOf(Whole())}, name="SharePartition")))
        ),
        "connections": MapOf(CONNECTION),
        "transactions": MapOf(sparse(TRANSACTION, "StateTransaction")),
        "faults": MapOf(sparse(FAULT, "StateFault", position=Whole())),
        "events": Object({"first": Whole(), "last": Whole()}),
        "requests": Object({"first": Whole(), "last": Whole()}),
        "presets": MapOf(Flag()),
        "left_out": MapOf(Whole()),
    },
    name="State",
)
