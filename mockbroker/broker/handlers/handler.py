"""The interface of API handlers, and the authorized operations in responses.

Without an authorizer, all operations are authorized.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects
from mockbroker.broker.broker import Broker
from mockbroker.security.acl import Operation, ResourceType
from mockbroker.security.standard_authorizer import SUPPORTED, bits

Handle: TypeAlias = Callable[[Broker, Call[Any], float], Effects]
AdaptResponse: TypeAlias = Callable[[Any, int], Any]

TOPIC_OPERATIONS = SUPPORTED[ResourceType.TOPIC]
GROUP_OPERATIONS = SUPPORTED[ResourceType.GROUP]
GROUP_OPERATIONS_BEFORE_4_0 = bits(Operation.READ, Operation.DELETE, Operation.DESCRIBE)
CLUSTER_OPERATIONS = SUPPORTED[ResourceType.CLUSTER]


class Handler:
    """The handler of an API.

    Attributes:
        versions: API versions that the handler implements; an emulated release may serve fewer.
        handle: Function that handles a request and returns the effects, such as the response. It does not wait for
            other requests and does not encode the response.
        adapt_response: Function that adapts a response to an older API version; None if all versions have the same
            response. It is called for immediate and for delayed responses.
    """

    __slots__ = ("_module", "adapt_response", "handle", "versions")
    handle: Handle
    adapt_response: AdaptResponse | None
    _module: str  # is imported when one of the functions is read for the first time

    def __init__(self, versions: Versions, handle: Handle, adapt_response: AdaptResponse | None = None) -> None:
        self.versions = versions
        self.handle = handle
        self.adapt_response = adapt_response

    @classmethod
    def of_module(cls, versions: Versions, module: str) -> Handler:
        """Return a handler that imports its module when it handles the first request.

        Args:
            versions: API versions that the handler implements.
            module: Full name of the module. It has the function ``handle``, and may have ``adapt_response``.
        """
        handler = _UnloadedHandler.__new__(_UnloadedHandler)
        handler.versions = versions
        handler._module = module
        return handler


class _UnloadedHandler(Handler):
    """A handler whose module is not imported yet.

    The first access to one of its functions imports the module, and changes the class of the object to Handler. Then
    Python finds the functions faster.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """Import the handler's module, set ``handle`` and ``adapt_response``, and return the function with this name.

        Python calls this method for the first access to one of the functions.
        """
        if name not in ("handle", "adapt_response"):
            raise AttributeError(name, name=name, obj=self)
        module = import_module(self._module)
        self.handle = module.handle
        self.adapt_response = getattr(module, "adapt_response", None)
        self.__class__ = Handler  # type: ignore[assignment]
        return getattr(self, name)
