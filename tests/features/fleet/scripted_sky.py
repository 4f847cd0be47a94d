"""SkyPilot's module as a script: the calls that a rented machine takes, written down instead of rented.

Where it is a `sky.py` of an environment, the infra says what happens: `none` has no access to a cloud, `full`
no such machine, `endless` a job that does not end.
"""

import json
import sys
import types
from pathlib import Path

exceptions = types.ModuleType("sky.exceptions")
for _name in ("NoCloudAccessError", "ApiServerConnectionError", "ResourcesUnavailableError"):
    setattr(exceptions, _name, type(_name, (Exception,), {}))
sys.modules["sky.exceptions"] = exceptions
__path__ = []


def _note(**call):
    with Path(sys.prefix, "calls").open("a") as file:
        print(json.dumps(call), file=file)


class Resources:
    def __init__(self, *, autostop, infra=None, cpus=None, accelerators=None, use_spot=None):
        self.infra = infra
        _note(
            call="Resources", infra=infra, cpus=cpus, accelerators=accelerators, spot=use_spot, autostop=autostop
        )


class Task:
    def __init__(self, name=None, *, setup=None, run=None, secrets=None):
        _note(call="Task", name=name, setup=setup, run=run, secrets=secrets)

    def set_resources(self, resources):
        self.resources = resources


class _Status:
    value = "SUCCEEDED"

    @staticmethod
    def is_terminal():
        return True


def launch(task, cluster_name, *, idle_minutes_to_autostop, down):
    print("SkyPilot prints to standard output")
    if task.resources.infra == "none":
        raise exceptions.NoCloudAccessError("Cloud access is not set up. Run: \x1b[1msky check\x1b[0m")
    if task.resources.infra == "full":
        raise exceptions.ResourcesUnavailableError("all zones tried")
    _note(call="launch", name=cluster_name, idle=idle_minutes_to_autostop, down=down)
    return (1, None) if task.resources.infra != "endless" else (2, None)


def job_status(_name, job_ids):
    _note(call="job_status")
    return {job_ids[0]: _Status() if job_ids == [1] else None}


def api_cancel(_request, *, silent):
    _note(call="api_cancel", silent=silent)


def down(name):
    _note(call="down", name=name)
    raise ValueError("the cluster does not exist")


def get(request):
    return request
