"""The command ``kwire pipeline``, which converts captures to tables with Spark."""

from __future__ import annotations

from kwire.spark.command import command

__all__ = ["command"]
