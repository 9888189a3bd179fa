"""Envelope (key 58): a broker forwards a client's request, with the client's principal, to the controller (KIP-590).

The fields for request and response contain whole frames (header and body) without length prefix.
"""

from kwire.schema import Api, Bytes, Int16, request, response

ENVELOPE = Api(58, versions="0", flexible="0+")


@request(ENVELOPE)
class EnvelopeRequest:
    request_data: bytes = Bytes()
    request_principal: bytes | None = Bytes(null=True)
    client_host_address: bytes = Bytes()


@response(ENVELOPE)
class EnvelopeResponse:
    response_data: bytes | None = Bytes(null=True, default=None)
    error_code: int = Int16()
