"""The checker of invariant I9: after the last fault, every group becomes stable and all its partitions have owners."""

from __future__ import annotations

from collections.abc import Iterable

from mockbroker.broker.broker import Broker
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.lab.simulation.clients.classic import STABLE, ClassicClient
from mockbroker.lab.simulation.clients.client import Client
from mockbroker.lab.simulation.clients.consumer import ConsumerClient
from mockbroker.lab.simulation.clients.plans import Place
from mockbroker.lab.simulation.clients.reader import Reader
from mockbroker.lab.simulation.clients.streams import StreamsClient

NAME = "I9"


def why_not(broker: Broker, clients: Iterable[Client]) -> str:
    """Return a reason why the groups have not recovered, or "" if all groups are stable.

    A group is stable if its state is Stable, all its clients are members, and the members own all subscribed
    partitions. A consumer group must also know the topics as they are now, unless all its members use the classic
    protocol: their heartbeats do not make the group read the metadata. Which version of the metadata it has read does
    not matter: an operator may change the metadata more often than members send heartbeats.

    Args:
        broker: the cluster.
        clients: the clients of the run; stopped clients and clients that are not group members are ignored.
    """
    groups: dict[str, list[Reader]] = {}
    for client in clients:
        if client.up and isinstance(client, (ClassicClient, ConsumerClient, StreamsClient)):
            groups.setdefault(client.script.group, []).append(client)
    for group_id, members in groups.items():
        group = broker.groups.get(group_id)
        if group is None or group.state_name != "Stable":
            return f"{group_id} is {'missing' if group is None else group.state_name}"
        if len(group.members) != len(members):
            return f"{group_id} has {len(group.members)} members, but {len(members)} clients run"
        for member in members:
            if missing := _lags(member):
                return f"{member.name} of {group_id} {missing}"
        wanted = {
            (topic, index) for member in members for topic in member.topics for index in range(member.partitions(topic))
        }
        owned: dict[Place, str] = {}
        for member in members:
            for place in sorted(member.owned):
                if place in owned:
                    return f"{place} of {group_id} is read by {owned[place]} and {member.name}"
                owned[place] = member.name
        if wanted - owned.keys():
            return f"{min(wanted - owned.keys())} of {group_id} has no owner"
        consumers = broker.groups.get_as(group_id, ConsumerGroup)
        if consumers is None or consumers.classic_member_count == len(consumers.members):
            continue
        if consumers.topic_metadata != consumers.subscribed_metadata(broker.cluster):
            return f"{group_id} has not processed the newest topic metadata"
    return ""


def _lags(member: Reader) -> str:
    if isinstance(member, ClassicClient):
        return "" if member.state == STABLE and not member.rejoin_due else f"is {member.state}"
    assert isinstance(member, (ConsumerClient, StreamsClient))
    return "" if member.held == member.target and member.epoch > 0 else f"is reconciling in epoch {member.epoch}"
