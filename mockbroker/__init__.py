"""A broker for tests that real Kafka clients cannot tell from Apache Kafka's where consumer groups are concerned."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mockbroker.cluster_api import Cluster, ClusterClosedError, PortInUseError, open_cluster
    from mockbroker.cluster_thread import ThreadCluster, run_cluster
    from mockbroker.failover import FailoverError
    from mockbroker.inside import Record, UnknownTopicError
    from mockbroker.journal import Event
    from mockbroker.request_log import Request
    from mockbroker.settings import SettingsError
    from mockbroker.snapshots import GroupSnapshot, MemberSnapshot
    from mockbroker.tls import TlsFiles
    from mockbroker.waiting import WaitTimeoutError
else:  # loaded when asked for: pytest loads this package in every run, also where nobody needs a broker
    _HOMES = {
        "Cluster": "cluster_api",
        "ClusterClosedError": "cluster_api",
        "Event": "journal",
        "FailoverError": "failover",
        "GroupSnapshot": "snapshots",
        "MemberSnapshot": "snapshots",
        "PortInUseError": "cluster_api",
        "Record": "inside",
        "Request": "request_log",
        "SettingsError": "settings",
        "ThreadCluster": "cluster_thread",
        "TlsFiles": "tls",
        "UnknownTopicError": "inside",
        "WaitTimeoutError": "waiting",
        "open_cluster": "cluster_api",
        "run_cluster": "cluster_thread",
    }

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Cluster",
    "ClusterClosedError",
    "Event",
    "FailoverError",
    "GroupSnapshot",
    "MemberSnapshot",
    "PortInUseError",
    "Record",
    "Request",
    "SettingsError",
    "ThreadCluster",
    "TlsFiles",
    "UnknownTopicError",
    "WaitTimeoutError",
    "open_cluster",
    "run_cluster",
]
