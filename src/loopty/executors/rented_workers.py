"""Workers on machines that are rented for them: through SkyPilot on a cloud, through Modal as a container.

Nothing that is rented stays: a worker ends when its driver is gone or its minutes are over, and what it ran on is
told at its launch to end when it is idle, so that this holds also when this process is killed at any instant.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
import sys
from typing import Any

from loopty.domain.errors import Misuse
from loopty.executors.cluster_spec import ClusterSpec
from loopty.version import __version__

_IDLE_MINUTES = 5
"""A rented machine without a worker is given back after this time, by itself."""
_MINUTES = 12 * 60
_PATIENCE_SECONDS = 120
"""A worker that finds no driver for this long ends: nobody else would end it."""
_POLL_SECONDS = 10.0


def worker_line(spec: ClusterSpec) -> str:
    """The command of a worker that ends without a driver, and at the latest when its minutes are over."""
    seconds = int(60 * spec.number("minutes", _MINUTES))
    return f"timeout {seconds} loopty worker --trust --patience {_PATIENCE_SECONDS}"


def requirement(spec: ClusterSpec) -> str:
    """What pip installs on the rented machine: this version of loopty, or what the user says."""
    return spec.options.get("install", f"loopty=={__version__}")


def sky_task(sky: Any, spec: ClusterSpec, url: str) -> Any:
    """The task that SkyPilot runs on one machine. The URL is a secret of it, so that no list shows it."""
    options = {"cpus": spec.options.get("cpus"), "accelerators": spec.options.get("gpus")}
    resources = sky.Resources(
        infra=spec.place or None,
        use_spot=spec.options.get("spot") == "yes" or None,
        autostop={"idle_minutes": _IDLE_MINUTES, "down": True},
        **{name: value for name, value in options.items() if value},
    )
    task = sky.Task(
        name="loopty-worker",
        setup=f"pip install {shlex.quote(requirement(spec))}",
        run=worker_line(spec),
        secrets={"LOOPTY_WORKER_URL": url},
    )
    task.set_resources(resources)
    return task


async def run_sky_worker(spec: ClusterSpec, url: str) -> str:
    """Rent one machine through SkyPilot, run a worker there to its end, and give the machine back."""
    try:
        import sky
    except ImportError:
        raise Misuse(
            "`sky:` under [executor] hosts needs SkyPilot: install it with `pip install 'loopty[sky]'`"
        ) from None
    name, task = f"loopty-{secrets.token_hex(4)}", sky_task(sky, spec, url)
    try:
        request = await asyncio.to_thread(
            sky.launch, task, cluster_name=name, idle_minutes_to_autostop=_IDLE_MINUTES, down=True
        )
        job, _ = await asyncio.to_thread(sky.get, request)
        while True:
            states = await asyncio.to_thread(lambda: sky.get(sky.job_status(name, [job])))
            if (state := states.get(job)) is not None and state.is_terminal():
                return f"its job ended as {state.value}"
            await asyncio.sleep(_POLL_SECONDS)
    except (sky.exceptions.NoCloudAccessError, sky.exceptions.ApiServerConnectionError) as error:
        raise Misuse(
            f"SkyPilot can rent nothing ({error}): log in to a cloud, then `sky check` says whether it works"
        ) from None
    except sky.exceptions.ResourcesUnavailableError as error:
        return f"no such machine is free ({error})"
    finally:
        await asyncio.shield(asyncio.to_thread(_give_back, sky, name))


def _give_back(sky: Any, name: str) -> None:
    """End the machine; one that was never there is no fault, and one that cannot be reached ends by itself."""
    try:
        sky.get(sky.down(name))
    except (ValueError, RuntimeError):
        return


def run_modal_worker(line: str) -> int:
    """Run a worker inside a container of Modal."""
    import subprocess

    return subprocess.run(shlex.split(line), stdin=subprocess.DEVNULL).returncode


def modal_function(modal: Any, spec: ClusterSpec, url: str) -> tuple[Any, Any]:
    """The app and the function that Modal runs in one container, with a limit on its time and no retries."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"  # the function travels pickled
    image = modal.Image.debian_slim(python_version=version).apt_install("git", "bubblewrap")
    app = modal.App("loopty-workers")
    function = app.function(
        image=image.pip_install(requirement(spec)),
        gpu=spec.options.get("gpus"),
        cpu=spec.number("cpus", 1),
        timeout=int(60 * spec.number("minutes", _MINUTES)) + 60,
        retries=0,
        scaledown_window=60,
        secrets=[modal.Secret.from_dict({"LOOPTY_WORKER_URL": url})],
        serialized=True,
        name="worker",
    )(run_modal_worker)
    return app, function


async def run_modal_container(spec: ClusterSpec, url: str) -> str:
    """Run one worker in a container of Modal to its end; the app ends with this process, however it ends."""
    try:
        import modal
    except ImportError:
        raise Misuse(
            "`modal:` under [executor] hosts needs Modal: install it with `pip install 'loopty[modal]'`"
        ) from None
    app, function = modal_function(modal, spec, url)
    try:
        async with app.run.aio():  # not detached: Modal ends it when it no longer hears of this process
            call = await function.spawn.aio(worker_line(spec))
            try:
                return f"its container ended with exit code {await call.get.aio()}"
            except asyncio.CancelledError:
                await asyncio.shield(call.cancel.aio(terminate_containers=True))
                raise
    except modal.exception.AuthError as error:
        raise Misuse(f"Modal lets nobody in ({error}): log in with `modal setup`, then start again") from None
    except modal.exception.Error as error:
        return str(error) or type(error).__name__
