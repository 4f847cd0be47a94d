"""Errors, grouped by who can fix them.

None of them is raised inside a trial: a trial that goes wrong is an Outcome.

    LooptyError
    ├── Misuse        a wrong task file, command line or state: one line with the remedy, exit 2
    │   ├── StoreFault  the shared store is away, full or refuses (domain/shared_store.py)
    │   ├── Taken     another process was faster
    │   └── LostLease this process was taken for dead, and another one closed what it had begun
    ├── Exhausted     a proposer has nothing left to propose, or a cap leaves nothing to spend
    │   └── Crowded   calls in flight may need what is left
    ├── Outage        a model is unavailable (domain/model.py)
    │   └── WorkerOutage  no worker can run trials (domain/model.py)
    ├── ModelFault    one request to a model gave no reply (domain/model.py)
    ├── AllowanceExceeded  a trial asked a model for more than its allowance (models/trial_access.py)
    ├── SandboxError  the sandbox itself failed (domain/launch.py)
    └── GitError      git refused (git/command.py)
"""

from __future__ import annotations


class LooptyError(Exception):
    """Anything that loopty raises on purpose."""


class Misuse(LooptyError):  # noqa: N818 - named after what the user did, as in the design's glossary
    """What the user asked for cannot be done; the message holds the remedy."""


class Taken(Misuse):
    """Another process was faster: it started, ended or paid for the same thing."""


class LostLease(Misuse):
    """This process was taken for dead: it may write no more, because another one closed what it had begun."""


class Exhausted(LooptyError):  # noqa: N818
    """A proposer has nothing left to propose, or nothing left to spend."""


class Crowded(Exhausted):
    """Calls in flight may need the rest of a cap: wait until they are settled."""
