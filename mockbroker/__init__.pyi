"""The public names of mockbroker. Type checkers read this file; ``__init__.py`` imports each name on first use."""

from mockbroker.api.clock import Clock as Clock
from mockbroker.api.cluster import Cluster as Cluster
from mockbroker.api.cluster import ClusterClosedError as ClusterClosedError
from mockbroker.api.cluster import open_cluster as open_cluster
from mockbroker.api.open_listeners import PortInUseError as PortInUseError
from mockbroker.api.records import Record as Record
from mockbroker.api.records import UnknownTopicError as UnknownTopicError
from mockbroker.api.snapshots import GroupSnapshot as GroupSnapshot
from mockbroker.api.snapshots import MemberSnapshot as MemberSnapshot
from mockbroker.api.thread import ThreadClock as ThreadClock
from mockbroker.api.thread import ThreadCluster as ThreadCluster
from mockbroker.api.thread import run_cluster as run_cluster
from mockbroker.api.wait import WaitTimeoutError as WaitTimeoutError
from mockbroker.base.event_kinds import EventKind as EventKind
from mockbroker.base.settings import SettingsError as SettingsError
from mockbroker.broker.failover import FailoverError as FailoverError
from mockbroker.broker.journal import Event as Event
from mockbroker.broker.request_log import Request as Request
from mockbroker.net.in_process import ConnectionClosedError as ConnectionClosedError
from mockbroker.net.in_process import InProcessConnection as InProcessConnection
from mockbroker.net.tls import TlsFiles as TlsFiles
from mockbroker.storage.disk import DataDirError as DataDirError
