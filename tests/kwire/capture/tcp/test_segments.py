"""Endpoints of connections as text."""

from kwire.capture.tcp.segments import endpoint


def test_endpoints_as_text() -> None:
    assert endpoint(0, 0xFFFF_0A00_0001, 9092) == "10.0.0.1:9092"
    assert endpoint(0xFD00 << 48, 1, 9092) == "[fd00::1]:9092"
