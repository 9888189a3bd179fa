"""``kwire pipeline``: captures into tables, through Spark."""

from __future__ import annotations

from kwire.spark.command import command

__all__ = ["command"]
