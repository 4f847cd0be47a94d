"""A server that answers, and loopty's endpoint in front of it."""

import pytest

from ...models.server import ScriptedServer, answer
from ...models.vendor_replies import openai_reply
from .served_run import ServedRun


@pytest.fixture
def server():
    with ScriptedServer(answer(openai_reply())) as server:
        yield server


@pytest.fixture
def served(tmp_path, server):
    return ServedRun(tmp_path, url=f"{server.url}/v1")
