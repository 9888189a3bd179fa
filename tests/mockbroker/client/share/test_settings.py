from __future__ import annotations

import pytest

from mockbroker.client.share.settings import ShareSettings


def test_defaults_are_kafkas() -> None:
    settings = ShareSettings()
    assert (settings.share_acknowledgement_mode, settings.share_acquire_mode) == ("implicit", "batch_optimized")
    assert (settings.max_poll_records, settings.fetch_max_bytes, settings.fetch_max_wait) == (500, 52_428_800, 0.5)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("share_acknowledgement_mode", "auto", "share_acknowledgement_mode is 'auto': use implicit or explicit"),
        ("share_acquire_mode", "all", "share_acquire_mode is 'all': use batch_optimized or record_limit"),
        ("max_poll_records", 0, "max_poll_records is 0: use at least 1"),
    ],
)
def test_invalid_value_is_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        ShareSettings(**{name: value})  # type: ignore[arg-type]
