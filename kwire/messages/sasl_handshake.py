"""SaslHandshake (key 17): select a SASL mechanism.

After v0, clients send tokens without request header. After v1, they send SaslAuthenticate requests (KIP-152).
"""

from kwire.schema import Api, Array, Int16, String, request, response

SASL_HANDSHAKE = Api(17, versions="0-1", flexible="none")


@request(SASL_HANDSHAKE)
class SaslHandshakeRequest:
    mechanism: str = String()


@response(SASL_HANDSHAKE)
class SaslHandshakeResponse:
    error_code: int = Int16()
    mechanisms: list[str] = Array(String)
