"""The public names. Type checkers read this file, and ``__init__.py`` loads from it what is asked for."""

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
from mockbroker.net.in_process import Line as Line
from mockbroker.net.in_process import LineClosedError as LineClosedError
from mockbroker.net.tls import TlsFiles as TlsFiles
from mockbroker.storage.disk import DataDirError as DataDirError
