"""A model that is served on this machine answers benchmarks over HTTP, too."""

import pytest

from .. import tiny_gguf
from .served_run import ServedRun, chat

pytest.importorskip("xllamacpp")


async def test_calls_are_forwarded_to_a_local_model(tmp_path):
    file = tiny_gguf.write_model(tmp_path / "tiny.gguf")
    settings = {"provider": "local", "model": "", "key_env": "", "file": str(file), "settings": {"threads": 1}}
    served = ServedRun(tmp_path, **settings, max_output_tokens=5)
    async with served.trial() as (client, access):
        whole = await client.post("/v1/chat/completions", json=chat())
        streamed = await client.post("/v1/chat/completions", json=chat(stream=True))
        message = await client.post("/v1/messages", json=chat())
        refused = await client.post("/v1/embeddings", json={"input": "x"})
    assert [response.status_code for response in (whole, streamed, message, refused)] == [200, 200, 200, 400]
    used = whole.json()["usage"]
    assert served.settled[0].tokens == used["total_tokens"] > 0
    assert all(settled.usage.output_tokens <= 5 for settled in served.settled)
    assert [settled.failure for settled in served.settled] == ["", "", ""]
    assert streamed.text.rstrip().endswith("[DONE]")
    assert access.excuse(False) is None
