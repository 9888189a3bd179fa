"""SaslAuthenticate (key 36): exchange tokens of the SASL mechanism that SaslHandshake selected (KIP-152).

v1 adds the lifetime of the session (KIP-368); v2 is flexible.
"""

from kwire.schema import Api, Bytes, Int16, Int64, String, request, response

SASL_AUTHENTICATE = Api(36, versions="0-2", flexible="2+")


@request(SASL_AUTHENTICATE)
class SaslAuthenticateRequest:
    auth_bytes: bytes = Bytes()


@response(SASL_AUTHENTICATE)
class SaslAuthenticateResponse:
    error_code: int = Int16()
    error_message: str | None = String(null=True)
    auth_bytes: bytes = Bytes()
    session_lifetime_ms: int = Int64("1+", ignorable=True)
