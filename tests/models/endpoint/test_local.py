"""A model that is served on this machine answers benchmarks over HTTP, too."""

import pytest

from .. import tiny_gguf
from .desk import ServedRun, chat

pytest.importorskip("xllamacpp")


async def test_a_local_model_is_forwarded_to(tmp_path):
    file = tiny_gguf.write_model(tmp_path / "tiny.gguf")
    served = {"provider": "local", "model": "", "key_env": "", "file": str(file), "settings": {"threads": 1}}
    desk = ServedRun(tmp_path, **served, max_output_tokens=5)
    async with desk.trial() as (client, door):
        whole = await client.post("/v1/chat/completions", json=chat())
        streamed = await client.post("/v1/chat/completions", json=chat(stream=True))
        spoken = await client.post("/v1/messages", json=chat())
        refused = await client.post("/v1/embeddings", json={"input": "x"})
    assert [found.status_code for found in (whole, streamed, spoken, refused)] == [200, 200, 200, 400]
    used = whole.json()["usage"]
    assert desk.settled[0].tokens == used["total_tokens"] > 0
    assert all(settled.usage.output_tokens <= 5 for settled in desk.settled)
    assert [settled.failure for settled in desk.settled] == ["", "", ""]
    assert streamed.text.rstrip().endswith("[DONE]")
    assert door.excuse(False) is None
