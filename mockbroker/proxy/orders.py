"""Orders: actions that the relay carries out for the fault rules, such as sending a response to the client."""

from __future__ import annotations

from typing import TypeAlias

from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Pace
from mockbroker.proxy.observer import Steps


@dataclass(frozen=True, slots=True)
class Forward:
    """The order to send a request to the broker.

    Attributes:
        data: the request, with its length prefix.
        is_answered: whether the broker sends a response to the request.
        is_intercepted: whether the response is passed to the fault rules.
    """

    data: bytes
    is_answered: bool = True
    is_intercepted: bool = True


@dataclass(frozen=True, slots=True)
class Send:
    """The order to send a response to the client.

    Attributes:
        data: the response, with its length prefix.
        pace: the pace of sending; None to send the whole response immediately.
        before: work of observers that must be done before the response is sent; None for no work.
    """

    data: bytes
    pace: Pace | None = None
    before: Steps | None = None


@dataclass(frozen=True, slots=True)
class SendMore:
    """The order to send further bytes of a slow response: as many as the pace of the response allows now."""


@dataclass(frozen=True, slots=True)
class End:
    """The order to close the client's connection.

    Attributes:
        reason: reason for the log; "" to log nothing.
        reset: whether the connection is closed by a TCP reset.
        alert: whether a TLS alert is sent first, because the TLS handshake of the connection fails.
    """

    reason: str
    reset: bool = False
    alert: bool = False


Order: TypeAlias = Forward | Send | SendMore | End
