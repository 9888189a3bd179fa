from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

TOGETHER = ("interop", "spark")

settings.register_profile(
    "kwire", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("kwire")


@pytest.hookimpl(tryfirst=True)  # xdist looks at the marks in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run side by side (``-n 2 --dist loadgroup``): those of one file stay together, as what they share does;
    those with real clients and those on Spark are a group each, since their tools are built once and need much memory."""
    for item in items:
        folder = next((name for name in TOGETHER if name in item.path.parts), None)
        item.add_marker(pytest.mark.xdist_group(folder or str(item.path)))
