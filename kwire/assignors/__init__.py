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

from kwire.lazy import lazy_names

__getattr__, __dir__ = lazy_names(globals())
