"""The table of sandbox back ends, in order of preference. A new back end is one line."""

from __future__ import annotations

from collections.abc import Callable

from loopty.domain.launch import Sandbox
from loopty.domain.task import SandboxSpec
from loopty.kit.by_name import by_name
from loopty.kit.records import Record


class BackEndEntry(Record):
    """Where a back end is, as `module:function`; the function makes it from the [sandbox] table of the task."""

    make: str
    needs_image: bool = False
    """Whether it runs nothing without [sandbox] image."""

    def load_make(self) -> Callable[[SandboxSpec], Sandbox]:
        loaded: Callable[[SandboxSpec], Sandbox] = by_name(self.make)
        return loaded


BACK_ENDS = {
    "namespaces": BackEndEntry("loopty.sandboxes.namespaces.sandbox:make_sandbox"),
    # For machines where bubblewrap may make user namespaces and Python may not (Ubuntu 24.04).
    "bubblewrap": BackEndEntry("loopty.sandboxes.bubblewrap.sandbox:make_sandbox"),
    # Where user namespaces are forbidden. It costs four times as much: a supervisor beside each trial ends the
    # processes that it leaves, and decides about calls that Landlock does not control.
    "landlock": BackEndEntry("loopty.sandboxes.landlock.sandbox:make_sandbox"),
    # For toolchains in an image; a launch takes a quarter of a second.
    "container": BackEndEntry("loopty.sandboxes.container.sandbox:make_sandbox", needs_image=True),
}
"""`kind = "auto"` takes the first that gives the required protections."""
