"""The handler of ApiVersions v0-4.

The response contains the API versions that the router serves, and the features of the emulated release.
"""

from __future__ import annotations

import re

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.codec import encode
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply, Ticket
from mockbroker.broker.broker import Broker

OPTIONAL_FEATURES_SINCE = 4
SOFTWARE_SINCE = 3
CLIENT_SOFTWARE = r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?"  # Source: Kafka's ApiVersionsRequest.isValid


def handle(broker: Broker, call: Call[ApiVersionsRequest], now: float) -> Effects:  # noqa: ARG001
    if not is_valid(call.request, call.version):
        return [Reply(call.ticket, ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))]
    if broker.settings.mockbroker_client_telemetry_enable and call.version >= SOFTWARE_SINCE:
        software = call.request.client_software_name, call.request.client_software_version
        broker.client_metrics.record_software(call.ticket.connection, *software)
    optional = call.version >= OPTIONAL_FEATURES_SINCE
    if optional not in broker.api_versions:
        broker.api_versions[optional] = _response(broker, optional=optional), {}
    return [Reply(call.ticket, *broker.api_versions[optional])]


def is_valid(request: ApiVersionsRequest, version: int) -> bool:
    """Return whether the name and version of the client software in an ApiVersions request are valid (KIP-511).

    ``version``: API version of the request. Before v3, requests contain no client software and are always valid.
    """
    software = (request.client_software_name, request.client_software_version)
    return version < SOFTWARE_SINCE or all(re.fullmatch(CLIENT_SOFTWARE, text) for text in software)


def _response(broker: Broker, *, optional: bool) -> ApiVersionsResponse:
    """Return the ApiVersions response.

    Args:
        broker: The state of the cluster.
        optional: True to include features with a minimum level of 0. Older clients reject such features.
    """
    supported = [
        ApiVersionsResponse.SupportedFeature(name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in broker.release.supported.items()
        if lowest or optional
    ]
    levels = broker.features.items()
    kind = ApiVersionsResponse.FinalizedFeature
    finalized = [kind(name=name, min_version_level=level, max_version_level=level) for name, level in levels]
    return ApiVersionsResponse(
        api_keys=[_entry(*item) for item in broker.advertised_versions.items()],
        supported_features=supported,
        finalized_features_epoch=broker.cluster.features_epoch,
        finalized_features=finalized,
    )


def unsupported(broker: Broker) -> ApiVersionsResponse:
    """Return the v0 response to an ApiVersions request in an unsupported version.

    The response contains the error, and the supported versions of ApiVersions.

    ``broker``: the state of the cluster.
    """
    entry = _entry(ApiKey.API_VERSIONS, broker.advertised_versions[ApiKey.API_VERSIONS])
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry])


def refused(ticket: Ticket) -> Reply:
    """Return the response of a broker that supports only older versions of ApiVersions than that of a request.

    ``ticket``: identity of the request.
    """
    older = ApiVersionsResponse.ApiVersion(api_key=ApiKey.API_VERSIONS, max_version=max(ticket.version - 1, 0))
    return in_version_0(ticket, ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[older]))


def in_version_0(ticket: Ticket, response: ApiVersionsResponse) -> Reply:
    """Return the effect of sending a response in version 0, whatever the version of the request.

    Clients read a response with UNSUPPORTED_VERSION in version 0 (KIP-511).

    Args:
        ticket: Identity of the request.
        response: The response.
    """
    return Reply(ticket, response, {ticket.version: encode(response, 0)})


def _entry(key: int, versions: Versions) -> ApiVersionsResponse.ApiVersion:
    assert versions.last is not None
    return ApiVersionsResponse.ApiVersion(api_key=key, min_version=versions.first, max_version=versions.last)
