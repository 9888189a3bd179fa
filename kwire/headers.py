"""Request and response headers, and the header version of each message version."""

from kwire.apikeys import ApiKey
from kwire.schema import Api, Int16, Int32, String, data


@data(versions="0-2", flexible="2+")
class RequestHeader:
    """The header of a request.

    Version 0 has no client id; only ControlledShutdown v0 uses it. Version 1 adds the client id, version 2 adds tagged
    fields.
    """

    request_api_key: int = Int16()
    request_api_version: int = Int16()
    correlation_id: int = Int32()
    client_id: str | None = String("1+", null=True, default=None, ignorable=True, flexible="none")


@data(versions="0-1", flexible="1+")
class ResponseHeader:
    """The header of a response. Version 1 adds tagged fields."""

    correlation_id: int = Int32()


def request_header_version(api: Api, version: int) -> int:
    """Return the header version of requests in this version of the API.

    Source: Kafka's generated ApiMessageType.requestHeaderVersion.
    """
    if api.key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if version in api.flexible else 1


def response_header_version(api: Api, version: int) -> int:
    """Return the header version of responses in this version of the API.

    It is always 0 for ApiVersions, so that any client can decode the response (KIP-511).
    """
    return 1 if version in api.flexible and api.key != ApiKey.API_VERSIONS else 0
