"""The sockets that listeners are bound to."""

from __future__ import annotations

import pytest

from mockbroker.net.bound_listeners import listen


@pytest.mark.parametrize(("host", "bound"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "0.0.0.0"), ("", "0.0.0.0")])
def test_address_of_a_listening_socket(host: str, bound: str) -> None:
    with listen(host, 0) as sock:
        assert sock.getsockname()[0] == bound
