"""Containers of Modal: what its real client asks for, against a server of its protocol on this machine."""

import asyncio
import pickle

import modal
import pytest
from modal_proto import api_pb2 as api

from loopty.domain.errors import Misuse
from loopty.features.fleet.cluster_spec import ClusterSpec
from loopty.features.fleet.rented_workers import modal_function, run_modal_container

from ...servers.modal_server import EXIT_CODE, log_in, serve_modal

URL = "loopty://secret@driver:7700/?certificate=" + "a" * 64
SPEC = ClusterSpec.parse("modal:?gpus=H100:2&cpus=4&minutes=30&install=loopty%3D%3D9.9")
_LIMIT_SECONDS = 120


async def test_a_container_runs_one_worker_to_its_end_with_what_the_entry_asks_for(monkeypatch):
    async with serve_modal(monkeypatch) as server:
        reason = await asyncio.wait_for(run_modal_container(SPEC, URL), _LIMIT_SECONDS)
    assert reason == f"its container ended with exit code {EXIT_CODE}"
    [function] = [request.function for request in server.requests("FunctionCreate")]
    assert (function.resources.gpu_config.gpu_type, function.resources.gpu_config.count) == ("H100", 2)
    assert function.resources.milli_cpu == 4000
    assert function.timeout_secs == 30 * 60 + 60
    assert function.retry_policy.retries == 0
    [call] = server.requests("FunctionMap")
    (line,), _ = pickle.loads(call.pipelined_inputs[0].input.args)
    assert line == "timeout 1800 loopty worker --trust --patience 120"
    built = [line for request in server.requests("ImageGetOrCreate") for line in request.image.dockerfile_commands]
    assert "RUN python -m pip install loopty==9.9" in built
    assert "RUN apt-get install -y git bubblewrap" in built


async def test_the_url_travels_as_a_secret_alone_and_the_app_ends_with_the_worker(monkeypatch):
    async with serve_modal(monkeypatch) as server:
        await asyncio.wait_for(run_modal_container(SPEC, URL), _LIMIT_SECONDS)
    [secret] = server.requests("SecretGetOrCreate")
    assert dict(secret.env_dict) == {"LOOPTY_WORKER_URL": URL}
    others = [item for name, item in server.all_requests() if name != "SecretGetOrCreate"]
    assert not [item for item in others if b"secret@driver" in item.SerializeToString()]
    [app] = server.requests("AppCreate")
    assert app.app_state == api.APP_STATE_EPHEMERAL
    assert len(server.requests("AppClientDisconnect")) == 1


async def test_a_worker_that_is_no_longer_wanted_ends_with_its_container(monkeypatch):
    async with serve_modal(monkeypatch, is_endless=True) as server:
        worker = asyncio.create_task(run_modal_container(SPEC, URL))
        await asyncio.wait_for(server.runs.wait(), _LIMIT_SECONDS)
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker
    [cancel] = server.requests("FunctionCallCancel")
    assert (cancel.function_call_id, cancel.terminate_containers) == ("fc-1", True)
    assert len(server.requests("AppClientDisconnect")) == 1


async def test_without_a_login_the_error_says_how_to_log_in(monkeypatch):
    log_in(monkeypatch, "http://127.0.0.1:1", "", "")
    with pytest.raises(Misuse, match="modal setup"):
        await run_modal_container(ClusterSpec.parse("modal:?install=loopty"), URL)


def test_a_gpu_that_modal_cannot_read_is_refused_by_its_client():
    with pytest.raises(modal.exception.InvalidError):
        modal_function(modal, ClusterSpec.parse("modal:?gpus=H100:many&install=loopty"), URL)
