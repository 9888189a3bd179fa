"""The handler of an API, and the authorized operations of a cluster without authorizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects
from mockbroker.broker.broker import Broker


class Operation(IntEnum):
    """An operation that an ACL can allow, with its number in Kafka. Source: Kafka's AclOperation."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


# Authorized operations without an authorizer: all operations of the resource type. Source: Kafka's AclEntry.
_O = Operation
_CONFIGS = _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS
GROUP_OPERATIONS = _bits(_O.READ, _O.DELETE, _O.DESCRIBE, *_CONFIGS)
GROUP_OPERATIONS_BEFORE_4_0 = _bits(_O.READ, _O.DELETE, _O.DESCRIBE)
TOPIC_OPERATIONS = _bits(_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, *_CONFIGS)
CLUSTER_OPERATIONS = _bits(_O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.IDEMPOTENT_WRITE, *_CONFIGS)

NO_AUTHORIZER = "No Authorizer is configured."


@dataclass(frozen=True, slots=True)
class Handler:
    """The handler of an API.

    Attributes:
        versions: API versions that the handler implements; an emulated release may serve fewer.
        handle: Function that handles a request: reads the version-dependent fields, calls the core and returns effects.
            The function never waits and never encodes.
        adapt_response: Function that returns a response adapted to an older API version, also the response to a delayed
            request; None if no response needs it.
    """

    versions: Versions
    handle: Callable[[Broker, Call[Any], float], Effects]
    adapt_response: Callable[[Any, int], Any] | None = None
