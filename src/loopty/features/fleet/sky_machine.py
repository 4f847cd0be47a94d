"""The process that rents one machine through SkyPilot, runs a worker there, and gives the machine back.

It runs under the Python of SkyPilot's own environment, because SkyPilot and loopty need different releases of
click, so it imports the standard library and SkyPilot alone. It reads one order as a line of JSON, and writes why
the worker ended. When its input ends, because the driver wants no worker any more or is gone, it gives the machine
back and ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, NoReturn

_POLL_SECONDS = 10.0
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def sky_task(sky: Any, order: Mapping[str, Any]) -> Any:
    """Make the task of one worker. The URL is a secret of it, so that no list shows it."""
    task = sky.Task(**order["task"], secrets=order["secrets"])
    task.set_resources(sky.Resources(**order["resources"]))
    return task


class RentedMachine:
    """One machine of SkyPilot, from its launch until it is given back."""

    def __init__(self, sky: Any, order: Mapping[str, Any]) -> None:
        self._sky = sky
        self._order = order
        self._name: str = order["name"]
        self._launch: Any = None
        self._lock = threading.Lock()

    def run(self) -> str:
        """Rent it and run the worker to its end. Returns how the job ended."""
        sky = self._sky
        autostop = self._order["resources"]["autostop"]
        self._launch = sky.launch(
            sky_task(sky, self._order),
            cluster_name=self._name,
            idle_minutes_to_autostop=autostop["idle_minutes"],
            down=autostop["down"],
        )
        job, _ = sky.get(self._launch)
        while True:
            state = sky.get(sky.job_status(self._name, [job])).get(job)
            if state is not None and state.is_terminal():
                return f"its job ended as {state.value}"
            time.sleep(_POLL_SECONDS)

    def give_back(self) -> None:
        """End it; one that was never there is no fault, and one that cannot be reached ends by itself."""
        with self._lock:
            for end in (self._cancel_launch, self._take_down):
                with contextlib.suppress(ValueError, RuntimeError):
                    end()

    def _cancel_launch(self) -> None:
        if self._launch is not None:
            self._sky.get(self._sky.api_cancel(self._launch, silent=True))

    def _take_down(self) -> None:
        self._sky.get(self._sky.down(self._name))


class SkyNotes:
    """What goes to the driver."""

    def __init__(self) -> None:
        # A copy, so that nothing that SkyPilot prints comes between.
        self._stream = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def end(self, **note: str) -> NoReturn:
        """Say how it went, and end at once: SkyPilot's own threads may hang."""
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(note), file=self._stream, flush=True)
        os._exit(0)


def main() -> None:
    notes = SkyNotes()
    try:
        import sky
        from sky import exceptions
    except ImportError as error:
        notes.end(failed=f"SkyPilot cannot be imported ({error}): install it anew")
    order = json.loads(sys.stdin.readline())
    machine = RentedMachine(sky, order)
    threading.Thread(target=_give_back_at_end_of_input, args=(machine, notes), daemon=True).start()
    try:
        end = {"ended": machine.run()}
    except (exceptions.NoCloudAccessError, exceptions.ApiServerConnectionError) as error:
        remedy = "log in to a cloud, then `sky check` says whether it works"
        end = {"failed": f"SkyPilot can rent nothing ({_text(error)}): {remedy}"}
    except exceptions.ResourcesUnavailableError as error:
        end = {"ended": f"no such machine is free ({_text(error)})"}
    except Exception as error:  # noqa: BLE001 - the edge of this process; the driver shows it
        end = {"ended": f"SkyPilot: {_text(error)}"}
    machine.give_back()
    notes.end(**end)


def _text(error: Exception) -> str:
    return _COLOUR.sub("", str(error)) or type(error).__name__


def _give_back_at_end_of_input(machine: RentedMachine, notes: SkyNotes) -> None:
    sys.stdin.read()
    machine.give_back()
    notes.end(ended="it was given back")


if __name__ == "__main__":
    main()
