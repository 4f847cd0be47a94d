"""The live stream: what changes is pushed to all viewers."""

import asyncio
import json
import socket

from loopty.domain.trial import Verdict
from loopty.web.live_feed import Viewer

from .conftest import serve


class Stream:
    """The messages of one viewer."""

    def __init__(self, reader) -> None:
        self.reader = reader

    async def until(self, kind):
        """The next message of this kind."""
        found = {}
        async with asyncio.timeout(60):
            while True:
                content = await self.reader.readline()
                assert content, f"the stream ended before {kind}"
                line = content.decode().strip()
                name, _, value = line.partition(": ")
                if name in ("event", "data", "id"):
                    found[name] = value
                if name == "data" and found.get("event") == kind:
                    return int(found["id"]), json.loads(value)


async def test_new_nodes_reach_every_viewer(story):
    async with serve(story.top) as client:
        streams, writers = [], []
        for _ in range(3):
            reader, writer = await client.open("GET", "/api/events")
            streams.append(Stream(reader))
            writers.append(writer)  # one that nobody holds is closed
            _, hello = await streams[-1].until("hello")
            assert hello["run"] == 1
            await streams[-1].until("overview")
        story.node("1.6", ("a" * 40, "c" * 40), 0.7, Verdict.DISCARDED, summary="pushed")
        for stream in streams:
            number, data = await stream.until("nodes")
            rows = {row[6]: row for row in data["nodes"]}
            assert rows["1.6"][5] == "discarded"
            assert rows["1.6"][8] == "pushed"
            assert data["counts"]["discarded"] == 2
            assert number == data["event"]
            assert (await stream.until("overview"))[1]["nodes"] == 8
        for writer in writers:
            writer.close()


async def test_a_change_beside_the_nodes_reaches_a_viewer_too(story):
    async with serve(story.top) as client:
        reader, writer = await client.open("GET", "/api/events")
        stream = Stream(reader)
        await stream.until("overview")
        await client.act("budget", changes={"attempts": 21})
        while (await stream.until("overview"))[1]["budget"]["attempts"] != 21:
            pass
        writer.close()


async def test_a_viewer_that_was_cut_off_gets_what_it_missed(story):
    async with serve(story.top) as client:
        event = (await client.get("/api/session")).data["event"]
        await client.get("/api/overview")
        story.node("1.6", ("a" * 40, "c" * 40), 0.7, Verdict.DISCARDED)
        async with asyncio.timeout(60):
            while (await client.get("/api/session")).data["event"] == event:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        reader, writer = await client.open("GET", "/api/events", last_event_id=str(event))
        _, data = await Stream(reader).until("nodes")
        assert "1.6" in {row[6] for row in data["nodes"]}
        writer.close()
        reader, writer = await client.open("GET", "/api/events", last_event_id="999999")
        await Stream(reader).until("reset")
        writer.close()


async def test_a_viewer_that_does_not_read_is_given_up_and_costs_no_memory():
    viewer = Viewer(None)
    for _ in range(1000):
        viewer.put(b"x")
    assert viewer.is_lost
    assert viewer.messages.qsize() <= 64


async def test_a_connection_that_came_when_the_server_ended_is_closed(story):
    async with serve(story.top) as client:
        ours, theirs = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=theirs)
        known = asyncio.all_tasks()
        client.server.accept(asyncio.StreamReader(), writer)
        for task in asyncio.all_tasks() - known:
            task.cancel()  # before it has begun
        with ours:
            ours.setblocking(False)
            async with asyncio.timeout(60):
                assert await asyncio.get_running_loop().sock_recv(ours, 1) == b""
