"""The checker of invariant I21: a target assignment contains each active task once, and standby tasks are on other
processes.
"""

from __future__ import annotations

from collections import Counter

from mockbroker.broker.broker import Broker
from mockbroker.groups.streams.state import StreamsGroup
from mockbroker.lab.simulation.watching import Watcher


class TaskTargets(Watcher):
    """The checker of invariant I21: a target assignment contains each active task once, and standby tasks on other
    processes.

    While the topology is incomplete, no task may be assigned.
    """

    name = "I21"

    def inspect(self, broker: Broker, now: float) -> None:
        for group_id in broker.groups:
            group = broker.groups.get_as(group_id, StreamsGroup)
            if group is not None:
                self._inspect(broker, group)

    def _inspect(self, broker: Broker, group: StreamsGroup) -> None:
        if group.assignment_epoch > group.epoch:
            raise self.broken(
                f"group {group.group_id} has the assignment epoch {group.assignment_epoch}, above its group epoch "
                f"{group.epoch}"
            )
        if group.epoch != group.assignment_epoch or not group.members or group.topology is None:
            return
        if group.metadata_version != broker.cluster.epoch:
            return  # topics changed, and the next heartbeat reads them
        if group.target.keys() != group.members.keys():
            raise self.broken(
                f"the target assignment of group {group.group_id} is for the members {sorted(group.target)}, "
                f"but the group has the members {sorted(group.members)}"
            )
        topics = broker.cluster.topics
        expected: set[tuple[str, int]] = set()
        stateful: set[str] = set()
        for name, each in group.topology.subtopologies.items():
            sources = [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
            if not all(topic in topics for topic in (*sources, *(topic.name for topic in each.state_changelog_topics))):
                return
            tasks = max(len(topics[topic].partitions) for topic in sources)
            expected |= {(name, number) for number in range(tasks)}
            if each.state_changelog_topics:
                stateful.add(name)
        active = Counter(task for tasks in group.target.values() for task in tasks.active)
        if active != dict.fromkeys(expected, 1):
            wrong = sorted(task for task in expected | set(active) if active[task] != 1)
            raise self.broken(
                f"the target assignment of group {group.group_id} has the active task {task_name(wrong[0])} "
                f"{active[wrong[0]]} times, expected {int(wrong[0] in expected)}"
            )
        wanted = int(group.assignment_configs.get("num.standby.replicas", "0"))
        processes = len({member.process_id for member in group.members.values()})
        standby = Counter(task for tasks in group.target.values() for task in tasks.standby)
        for task in expected:
            count = min(wanted, processes - 1) if task[0] in stateful else 0
            if standby[task] != count:
                raise self.broken(
                    f"the target assignment of group {group.group_id} has the standby task {task_name(task)} "
                    f"{standby[task]} times, expected {count}"
                )


def task_name(task: tuple[str, int]) -> str:
    """Return a task as Kafka Streams names it, such as ``0_1``: subtopology and number."""
    return f"{task[0]}_{task[1]}"
