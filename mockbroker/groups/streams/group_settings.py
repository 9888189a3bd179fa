"""The timeouts, the delay and the number of standby replicas that apply to one streams group."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.lazy_dataclass import dataclass
from mockbroker.groups.group_type import Context
from mockbroker.groups.streams.target import STANDBY_REPLICAS
from mockbroker.topics.group_configs import number


@dataclass(frozen=True, slots=True)
class StreamsGroupSettings:
    """The timeouts, the delay and the number of standby replicas that apply to one streams group.

    Attributes:
        session_timeout: Session timeout in seconds.
        heartbeat_interval_ms: Heartbeat interval of the members in milliseconds.
        standby_replicas: Number of standby tasks of each stateful task.
        initial_rebalance_delay: Time in seconds that an empty group waits for more members before the first assignment.
    """

    session_timeout: float
    heartbeat_interval_ms: int
    standby_replicas: int
    initial_rebalance_delay: float

    @property
    def assignment_configs(self) -> Mapping[str, str]:
        """The settings of the task assignor, by name."""
        return {STANDBY_REPLICAS: str(self.standby_replicas)}


def group_settings(group_id: str, context: Context) -> StreamsGroupSettings:
    """Return the settings of a streams group.

    Without configurations of the group, the result contains the settings of the brokers. If IncrementalAlterConfigs
    has set at least one configuration of the group, each configuration that is not set has Kafka's default, as in
    Kafka.

    Args:
        group_id: group id.
        context: data and functions shared by all groups.
    """
    settings, own = context.settings, context.cluster.group_configs.get(group_id)
    if own is None:
        return StreamsGroupSettings(
            settings.group_streams_session_timeout_ms / 1000,
            settings.group_streams_heartbeat_interval_ms,
            settings.group_streams_num_standby_replicas,
            settings.group_streams_initial_rebalance_delay_ms / 1000,
        )
    return StreamsGroupSettings(
        number(own, "streams.session.timeout.ms", settings) / 1000,
        number(own, "streams.heartbeat.interval.ms", settings),
        number(own, "streams.num.standby.replicas", settings),
        number(own, "streams.initial.rebalance.delay.ms", settings) / 1000,
    )
