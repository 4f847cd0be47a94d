"""Lends benchmarks what the tests use: a PostgreSQL server, and workers whose trials are calls of a function."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from harnesses.pool_harness import FunctionBench
from servers.postgres_server import PostgresServer

__all__ = ["FunctionBench", "PostgresServer"]
