"""Run a loopty system worker in a container of Modal.

    uv tool install modal && modal setup
    loopty system worker --recipe modal > ~/loopty_modal.py

In loopty.toml:

    [executor]
    kind = "pool"
    listen = "0.0.0.0:7700"   # a port of this machine that Modal's containers reach by its name
    start = "modal run --quiet ~/loopty_modal.py"
    workers = 2

Set the four values below.

Nothing rented stays. The container ends with its worker, and the worker ends with the session, two minutes after
the driver was killed, and after MINUTES in any case. Modal itself ends the container a minute later, and when it
no longer hears of the program `modal`.

NEVER RUN ON A RENTED MACHINE. Modal's own client sent its requests to a server of the tests; no more was tested.
Watch `modal app list` the first time. If the container allows no sandbox, the worker says so and ends.
"""

import os
import signal
import subprocess
import sys

import modal

GPU = "H100"  # None: no GPU
CPUS = 4.0
MINUTES = 600
INSTALL = "@INSTALL@"  # what pip installs there, in the driver's version: git+https://HOST/loopty, a wheel

if not INSTALL:
    sys.exit("say in this file what pip installs in the container")

if modal.is_local():
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as after Ctrl-C, Modal ends the container
app = modal.App("loopty-workers")
image = modal.Image.debian_slim(python_version="3.12").apt_install("git", "bubblewrap").pip_install(INSTALL)
url = modal.Secret.from_dict({"LOOPTY_WORKER_URL": os.environ.get("LOOPTY_WORKER_URL", "")})


@app.function(image=image, gpu=GPU, cpu=CPUS, timeout=60 * MINUTES + 60, retries=0, secrets=[url])
def worker() -> str:
    """Run the worker to its end; return its last line, which says why it ended."""
    line = ["timeout", f"{MINUTES}m", "loopty", "worker", "--trust", "--patience", "120"]
    done = subprocess.run(line, stderr=subprocess.PIPE, text=True)
    return (done.stderr.strip().splitlines() or [f"it ended with exit code {done.returncode}"])[-1]


@app.local_entrypoint()
def main() -> None:
    sys.exit(worker.remote())
