"""DescribeConfigs responses of real brokers: fixtures/broker_configs."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

from golden import ROOT

RELEASES = {"3.9": "3.9.1", "4.2": "4.2.0"}


@cache
def recorded(release: str) -> list[dict[str, Any]]:
    """Return the configs of a DescribeConfigs response, with synonyms."""
    path = ROOT / "fixtures" / "broker_configs" / f"{RELEASES[release]}.json.gz"
    configs: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))
    return configs
