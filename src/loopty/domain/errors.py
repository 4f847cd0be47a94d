"""What can go wrong, by whose fault.

Inside a trial nothing here is raised: a trial that goes wrong is an Outcome.

    LooptyError
    ├── Misuse        a wrong task file, command line or state: one line with the remedy, exit 2
    │   └── Taken     another process was faster
    ├── Exhausted     a proposer has nothing left to propose, or a cap leaves nothing to spend
    │   └── Crowded   calls in flight may need what is left
    ├── Outage        a model cannot be had for now (core/model.py)
    ├── ModelFault    one request to a model gave no reply (core/model.py)
    ├── Overspent     a trial asked for more of a model than one may have (models/allowance.py)
    ├── SandboxError  the sandbox itself failed (core/launch.py)
    └── GitError      git refused (workspaces/conversation.py)
"""

from __future__ import annotations


class LooptyError(Exception):
    """Anything that loopty raises on purpose."""


class Misuse(LooptyError):  # noqa: N818 - named after what the user did, as in the design's glossary
    """The user asked for something that cannot be done as asked; the message holds the remedy."""


class Taken(Misuse):
    """What was about to start was started, ended or paid for by another process."""


class Exhausted(LooptyError):  # noqa: N818
    """The proposer has covered everything that it can propose, or may spend nothing more."""


class Crowded(Exhausted):
    """Calls in flight may need what is left of a cap: wait until they are settled."""
