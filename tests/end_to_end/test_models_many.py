"""Several processes read a run while it calls models."""

import itertools
import json
import threading
import time

from .conftest import CODE_TASK
from .serving import evolver, number, text_behaviour, vendor


def test_eight_processes_can_read_a_run_with_calls_in_flight(code_place):
    looked, values = threading.Event(), itertools.count(7)

    def held(connection) -> None:
        looked.wait(300)
        text_behaviour(number(next(values)))(connection)

    with vendor(number(6), held) as server:
        code_place.write("loopty.toml", "width = 4\n" + CODE_TASK.format(attempts=6) + evolver(server))
        running = code_place.start("optimize")
        try:
            while len(server.requests) < 4:
                assert running.poll() is None, running.communicate()
                time.sleep(0.05)
            looking = [code_place.start(verb, "--json") for verb in ("spend", "status") * 4]
            for process in looking:
                out, err = process.communicate(timeout=300)
                assert (process.returncode, err) == (0, "")
                found = json.loads(out)
                assert found["run"] == 1
                assert found.get("asking", 0) + found.get("in_flight", {}).get("calls", 0) > 0
        finally:
            looked.set()
        _, err = running.communicate(timeout=300)
    assert running.returncode == 0, err
    spent = code_place.json("spend")
    assert (spent["total"]["calls"], spent["in_flight"]["calls"]) == (len(server.requests), 0)
    assert code_place.json("status")["counts"][0]["endings"] == {"finished": 6}
