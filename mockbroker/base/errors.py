"""The base classes of errors that operations on a cluster raise, by cause."""

from __future__ import annotations


class NotFoundError(LookupError):
    """The base class of errors for a thing that does not exist, such as a topic, a group or a fault rule."""


class ConflictError(ValueError):
    """The base class of errors for operations that the current state of the cluster does not allow."""


class FaultRuleError(ValueError):
    """The error for a fault rule that is not valid."""
