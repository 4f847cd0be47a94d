"""Why a container engine did not run a trial, and what to do about it."""

from __future__ import annotations

from pathlib import PurePath

# Parts of an engine's messages, in lower case, and the remedy; the first match counts.
_ADVICE = (
    (("image not known", "no such image", "unable to find image"), "fetch it first: {engine} pull {image}"),
    (
        ("permission denied while trying to connect", "docker.sock: connect: permission denied"),
        "let this user reach the daemon (group docker), or use podman, which needs no daemon",
    ),
    (
        ("cannot connect to the docker daemon", "is the docker daemon running"),
        "start the daemon (systemctl start docker), or use podman, which needs none",
    ),
    (
        ("unresolvable cdi devices",),
        "describe the GPUs to the engine: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
    ),
    (
        ("could not select device driver",),
        "set up GPUs for the engine: nvidia-ctk runtime configure --runtime=docker, and restart the daemon",
    ),
    (("container-init binary", "docker-init"), "install the engine's init: apt install catatonit or tini"),
    (
        ("newuidmap", "newgidmap", "/etc/subuid", "subordinate"),
        "apt install uidmap, and give the user a range: usermod --add-subuids 100000-165535 "
        "--add-subgids 100000-165535 $USER",
    ),
    (
        ("cgroups in hybrid mode not supported",),
        'apt install runc, and write runtime = "runc" under [engine] in /etc/containers/containers.conf',
    ),
    (
        ("cannot clone: operation not permitted", "user namespaces are not enabled"),
        "user namespaces are off: sysctl kernel.unprivileged_userns_clone=1",
    ),
)


def failure_message(program: str, stderr: str, image: str = "IMAGE") -> str:
    """The engine's own error message in one line, with the remedy where we know one."""
    engine = PurePath(program).name
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    message = next(iter(errors or lines), "it was killed from outside")
    advice = _advice(stderr.lower()).format(engine=engine, image=image)
    return f"{engine} failed: {message}" + (f"; {advice}" if advice else "")


def _advice(words: str) -> str:
    return next((advice for parts, advice in _ADVICE if any(part in words for part in parts)), "")
