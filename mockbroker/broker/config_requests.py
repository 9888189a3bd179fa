"""Functions that AlterConfigs and IncrementalAlterConfigs share, for requests with many resources."""

from __future__ import annotations

from typing import Any

from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import chunks, copy_with, merge_array


def split(broker: Broker, request: Any) -> list[Any]:
    """Return the slices of a large request; [] if it is small, or has a resource twice, which is an error."""
    resources, size = request.resources, broker.slice_size
    if len(resources) <= size or len({(each.resource_type, each.resource_name) for each in resources}) < len(resources):
        return []
    return [copy_with(request, resources=part) for part in chunks(resources, size)]


merge = merge_array("responses")
