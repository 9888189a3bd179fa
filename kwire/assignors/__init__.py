"""Partition assignors of Kafka as pure functions, and the interface for assignors of your own.

Client-side assignors take the subscriptions that members send in JoinGroup:

>>> from kwire.assignors import Subscription, assignor, without_racks
>>> members = {name: Subscription(["orders"]) for name in "ab"}
>>> share = assignor("range").assign(without_racks({"orders": 3}), members)
>>> share["a"].partitions, share["b"].partitions
([('orders', 0), ('orders', 1)], [('orders', 2)])

Server-side assignors (KIP-848) take the current target assignment:

>>> from uuid import UUID
>>> from kwire.assignors import MemberSubscription, assign
>>> orders = UUID(int=1)
>>> members = {name: MemberSubscription(topic_ids=[orders]) for name in "ab"}
>>> assign("range", members, {orders: 3}) == {"a": {orders: [0, 1]}, "b": {orders: [2]}}
True

Each name is imported on first use, so that a broker does not load client-side assignors.
"""

TYPE_CHECKING = False  # type checkers take it as true; typing need not be imported
if TYPE_CHECKING:
    from kwire.assignors.client import (
        COOPERATIVE,
        EAGER,
        Assignment,
        Assignor,
        Partition,
        PlainAssignor,
        Subscription,
        Subscriptions,
        TopicPartition,
        Topics,
        by_name,
        check,
        common_protocol,
        read_assignment,
        read_subscription,
        without_racks,
        write_assignment,
        write_subscription,
    )
    from kwire.assignors.client_assignors import (
        CLIENT,
        DEFAULT,
        assignor,
    )
    from kwire.assignors.client_range import (
        RangeAssignor,
    )
    from kwire.assignors.roundrobin import (
        RoundRobinAssignor,
    )
    from kwire.assignors.server import (
        AssignorError,
        GroupAssignment,
        MemberAssignment,
        Members,
        MemberSubscription,
        Partitions,
    )
    from kwire.assignors.server_assignors import (
        SERVER,
        assign,
    )
    from kwire.assignors.sticky import (
        CooperativeStickyAssignor,
        FirstStickyAssignor,
        StickyAssignor,
    )
else:
    from kwire.lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        globals(),
        {
            "client": (
                "COOPERATIVE",
                "EAGER",
                "Assignment",
                "Assignor",
                "Partition",
                "PlainAssignor",
                "Subscription",
                "Subscriptions",
                "TopicPartition",
                "Topics",
                "by_name",
                "check",
                "common_protocol",
                "read_assignment",
                "read_subscription",
                "without_racks",
                "write_assignment",
                "write_subscription",
            ),
            "client_assignors": ("CLIENT", "DEFAULT", "assignor"),
            "client_range": ("RangeAssignor",),
            "roundrobin": ("RoundRobinAssignor",),
            "server": (
                "AssignorError",
                "GroupAssignment",
                "MemberAssignment",
                "Members",
                "MemberSubscription",
                "Partitions",
            ),
            "server_assignors": ("SERVER", "assign"),
            "sticky": ("CooperativeStickyAssignor", "FirstStickyAssignor", "StickyAssignor"),
        },
    )


__all__ = [
    "CLIENT",
    "COOPERATIVE",
    "DEFAULT",
    "EAGER",
    "SERVER",
    "Assignment",
    "Assignor",
    "AssignorError",
    "CooperativeStickyAssignor",
    "FirstStickyAssignor",
    "GroupAssignment",
    "MemberAssignment",
    "MemberSubscription",
    "Members",
    "Partition",
    "Partitions",
    "PlainAssignor",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
    "Subscriptions",
    "TopicPartition",
    "Topics",
    "assign",
    "assignor",
    "by_name",
    "check",
    "common_protocol",
    "read_assignment",
    "read_subscription",
    "without_racks",
    "write_assignment",
    "write_subscription",
]
