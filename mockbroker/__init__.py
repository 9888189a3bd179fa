"""A broker for tests that real Kafka clients cannot tell from Apache Kafka's where consumer groups are concerned."""

from mockbroker.cluster_api import Cluster, PortInUseError, open_cluster, run_cluster
from mockbroker.journal import Event
from mockbroker.settings import SettingsError

__all__ = ["Cluster", "Event", "PortInUseError", "SettingsError", "open_cluster", "run_cluster"]
