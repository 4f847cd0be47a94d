"""A rig: what the trials of a run need besides the node's files, as one value that can go to any machine."""

from __future__ import annotations

from loopty.domain.access import Access
from loopty.domain.benchmark_spec import Benchmark, Limits
from loopty.domain.task import Audit, SandboxSpec
from loopty.kit.records import Record


class Rig(Record):
    """How trials are run. An evaluator is built from it, here or elsewhere (`campaign/trial_setup.py`)."""

    benchmark: Benchmark
    limits: Limits
    access: Access
    audit: Audit
    """The held-out split, which no trial of the search may see."""
    sandbox: SandboxSpec
    unsafe: bool = False
    """Whether trials run without a sandbox."""
    benchmark_digest: str = ""
    """Digest of the benchmark's files, part of the fingerprint; empty for a check before any run."""
    data_digest: str = ""
    """Digest of the benchmark's data outside the repository, part of the fingerprint."""
    gate_commands: tuple[str | tuple[str, ...], ...] = ()
    """The commands of the task's gates: what they call must be visible, too."""
