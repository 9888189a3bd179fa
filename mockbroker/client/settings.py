"""The settings of a consumer, with Kafka's names and defaults; durations are in seconds.

Source: org.apache.kafka.clients.consumer.ConsumerConfig.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any, Literal, TypeVar

from kwire.assignors import DEFAULT, Assignor
from kwire.lazy_dataclass import dataclass
from kwire.limits import MAX_TEXT

EARLIEST, LATEST, NONE = "earliest", "latest", "none"
CLASSIC, CONSUMER = "classic", "consumer"  # group protocols

S = TypeVar("S", bound="ClientSettings")
MAX_INT32 = 2**31 - 1
SENT_DURATIONS = ("fetch_max_wait", "request_timeout", "session_timeout", "max_poll_interval")  # int32 milliseconds
LEAST = {"max_poll_records": 1, "max_poll_interval": 0.001}  # the other numbers may be 0

Reset = Literal["earliest", "latest", "none"] | timedelta

EXPECTED: dict[str, tuple[Any, str]] = {  # annotation: types of a value, in words
    "bool": (bool, "True or False"),
    "int": (int, "an int"),
    "float": ((int, float), "a number of seconds"),
    "str": (str, "a str"),
    "str | None": ((str, type(None)), "a str or None"),
}


def check(name: str, annotation: str, value: Any) -> None:
    """Check the type and the range of a setting or an argument. Other annotations than those of EXPECTED are not
    checked.

    Args:
        name: The name of the setting or argument.
        annotation: Its annotation.
        value: Its value.

    Raises: ValueError for an invalid value; TypeError for a value of the wrong type.
    """
    types, words = EXPECTED.get(annotation, (object, ""))
    if not isinstance(value, types):
        raise TypeError(f"{name} is {value!r}: use {words}")
    if isinstance(value, str):
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise ValueError(f"{name} is {value!r}, which UTF-8 cannot encode: use another text") from None
        if size > MAX_TEXT:
            raise ValueError(f"{name} has {size} bytes: use at most {MAX_TEXT}")
    elif isinstance(value, (int, float)) and annotation != "bool":
        least = LEAST.get(name, 0)
        most = MAX_INT32 if annotation == "int" else MAX_INT32 / 1000 if name in SENT_DURATIONS else float("inf")
        if not value >= least:  # also NaN
            raise ValueError(f"{name} is {value}: use at least {least}")
        if value > most:
            raise ValueError(f"{name} is {value}: use at most {most}")


def settings_of(kind: type[S], given: Mapping[str, Any], others: Sequence[str]) -> S:
    """Return the settings of a consumer.

    Args:
        kind: The class of the settings.
        given: The settings by name.
        others: Names of other keyword arguments, for the error about an unknown name.

    Raises: TypeError for an unknown name, or a value of the wrong type; ValueError for an invalid value.
    """
    names = [setting.name for setting in fields(kind)]
    for name in given:
        if name not in names:
            from difflib import get_close_matches  # late: rarely used

            near = get_close_matches(name, [*others, *names], n=1)
            raise TypeError(f"unknown setting {name}" + (f"; did you mean {near[0]}?" if near else ""))
    return kind(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The settings that consumers and share consumers have in common. Only the default of ``client_id`` differs.

    A setting without a description has the meaning of the setting in Kafka with the same name.

    Attributes:
        max_poll_records: maximum number of records that one poll returns.
    """

    client_id: str | None = ""
    client_rack: str = ""
    max_poll_records: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 2**20
    fetch_max_wait: float = 0.5
    check_crcs: bool = True
    metadata_max_age: float = 300.0
    request_timeout: float = 30.0
    default_api_timeout: float = 60.0
    retry_backoff: float = 0.1
    retry_backoff_max: float = 1.0
    reconnect_backoff: float = 0.05
    reconnect_backoff_max: float = 1.0
    socket_connection_setup_timeout: float = 10.0

    def __post_init__(self) -> None:
        """Check the values of the settings.

        Raises: ValueError for an invalid value; TypeError for a value of the wrong type.
        """
        for setting in fields(self):
            check(setting.name, str(setting.type), getattr(self, setting.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(ClientSettings):
    """The settings of a consumer, by Kafka's names with ``_`` for the dots and without ``_ms``. A setting without a
    description has the meaning of the setting in Kafka.

    Attributes:
        auto_offset_reset: start offset of a partition without a committed offset. A timedelta (Kafka's ``by_duration``)
            is a maximum age: the consumer starts at the first record that is not older.
        assignors: names or Assignor objects in order of preference; the default is that of Kafka's Java consumer:
            range, then cooperative-sticky.
        group_remote_assignor: the server-side assignor that the member requests; only in consumer groups (KIP-848).
        fetch_sessions: whether incremental fetch sessions (KIP-227) are used; not a setting of Kafka.
        max_poll_records: maximum number of records that one poll returns; not sent to a broker.
    """

    client_id: str | None = "mockbroker-consumer"
    group_protocol: Literal["classic", "consumer"] = "classic"
    group_instance_id: str | None = None
    group_remote_assignor: str | None = None
    assignors: Sequence[str | Assignor] = DEFAULT
    session_timeout: float = 45.0
    heartbeat_interval: float = 3.0
    max_poll_interval: float = 300.0
    auto_offset_reset: Reset = "latest"
    enable_auto_commit: bool = True
    auto_commit_interval: float = 5.0
    max_partition_fetch_bytes: int = 2**20
    fetch_sessions: bool = True
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    allow_auto_create_topics: bool = True

    def __post_init__(self) -> None:
        """Check the values of the settings.

        Raises: ValueError for an invalid value; TypeError for a value of the wrong type.
        """
        super(ConsumerSettings, self).__post_init__()  # noqa: UP008 - slots
        if self.group_instance_id == "":
            raise ValueError("group_instance_id is empty: use at least one character, or None for a dynamic member")
        if self.group_protocol == CLASSIC and self.group_remote_assignor is not None:
            raise ValueError(
                f"group_remote_assignor is {self.group_remote_assignor!r}, but only the consumer protocol has it: "
                'set group_protocol="consumer", or use assignors'
            )
        if isinstance(self.assignors, str):
            raise TypeError(f"assignors is {self.assignors!r}: use a list, [{self.assignors!r}]")
        if not self.assignors:
            raise ValueError("assignors is empty: give at least one, such as range")
        if not isinstance(self.auto_offset_reset, timedelta) and self.auto_offset_reset not in (EARLIEST, LATEST, NONE):
            raise ValueError(
                f"auto_offset_reset is {self.auto_offset_reset!r}: use earliest, latest, none or a timedelta"
            )
        if self.group_protocol not in (CLASSIC, CONSUMER):
            raise ValueError(f"group_protocol is {self.group_protocol!r}: use classic or consumer")
        if self.isolation_level not in ("read_uncommitted", "read_committed"):
            raise ValueError(f"isolation_level is {self.isolation_level!r}: use read_uncommitted or read_committed")
        if self.group_protocol == CLASSIC and self.heartbeat_interval >= self.session_timeout:
            raise ValueError(
                f"heartbeat_interval is {self.heartbeat_interval} s: use less than session_timeout, "
                f"which is {self.session_timeout} s"
            )
