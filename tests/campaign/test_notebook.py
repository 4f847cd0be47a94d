"""A campaign in a real Jupyter kernel, where an event loop runs while a cell does."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from loopty.domain.errors import LooptyError
from loopty.record.sessions import Session

from .conftest import python_page_examples

jupyter_client = pytest.importorskip("jupyter_client", reason="jupyter_client is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")


class Kernel:
    """A kernel, and a client that sends cells to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manager = jupyter_client.AsyncKernelManager(
            kernel_name="python3", transport="ipc", ip=str(folder / "k"), connection_file=str(folder / "k.json")
        )

    async def start(self) -> None:
        await self.manager.start_kernel(cwd=str(self.folder))
        self.client = self.manager.client()
        self.client.start_channels()
        await self.client.wait_for_ready(timeout=120)

    async def run(self, code: str) -> str:
        """What a cell prints, while or after it runs. An error in it fails the test."""
        printed: list[str] = []

        def hear(message) -> None:
            content = message["content"]
            if message["msg_type"] == "error":
                printed.append(f"{content['ename']}: {content['evalue']}")
            printed.append(content.get("text", ""))

        reply = await self.client.execute_interactive(code, output_hook=hear, timeout=240)
        assert reply["content"]["status"] == "ok", "".join(printed)
        return "".join(printed)

    async def close(self) -> None:
        self.client.stop_channels()
        await self.manager.shutdown_kernel(now=True)


@pytest.fixture
async def kernel(tmp_path, monkeypatch):
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    kernel = Kernel(tmp_path)
    await kernel.start()
    yield kernel
    await kernel.close()


async def test_the_first_example_of_the_python_page_runs_in_a_notebook(code_place, kernel):
    said = await kernel.run(python_page_examples(code_place.top)[0])
    assert "all 8 attempt trials are spent True" in said
    assert code_place.git("branch", "--list", "loopty-best-*")
    checked = await kernel.run("print(campaign.check().problem)")
    assert checked == "None\n", "other verbs that run something work there, too"


async def test_the_stop_button_ends_the_run_and_keeps_its_results(code_place, kernel):
    code_place.write("bench.sh", f"sleep 0.5\n{(code_place.top / 'bench.sh').read_text()}")
    code_place.commit()
    await kernel.run(f"from loopty import Campaign; campaign = Campaign({str(code_place.top)!r})")
    cell = asyncio.create_task(kernel.run("print(campaign.optimize())"))
    is_under_way = False
    while not is_under_way:
        await asyncio.sleep(0.1)
        assert not cell.done()
        with contextlib.suppress(LooptyError):  # there is no run yet
            is_under_way = len(list(code_place.history().ids)) > 2
    await kernel.manager.interrupt_kernel()
    assert "stopped on request" in await cell
    history = code_place.history()
    assert history["1"].outcome.is_finished
    assert history["1.1"].outcome
    assert Session.of(history.runs[1]).ended == "stopped on request"
    assert "all 8 attempt trials are spent" in await kernel.run("print(campaign.optimize().reason)")
