"""git keeps the commit of every node, also after kill -9 at any instant of a fast session."""

import os
import signal
import time

from loopty.domain.errors import Misuse

from .conftest import CODE_TASK, Place

PROGRAM = "".join(f"value_{number} = {number}\n" for number in range(40))
MORE = '[noise]\nrepeat = "never"\n[proposer]\nkind = "mutate"\n'


def count_nodes(place: Place) -> int:
    try:
        return place.history().count
    except Misuse:  # nothing is recorded yet
        return 0


def kill_after(place: Place, nodes: int) -> None:
    process = place.start("optimize")
    deadline = time.monotonic() + 120
    while count_nodes(place) < nodes:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def test_every_commit_is_held_after_a_session_was_killed_and_another_one_ended(code_place):
    code_place.write("src/program.py", PROGRAM)
    code_place.write(
        "bench.sh", 'echo "{\\"score\\": $(cksum < src/program.py | cut -c 1-3)}" > "$EVO_RESULT_PATH"\n'
    )
    code_place.write("loopty.toml", CODE_TASK.format(attempts=40) + MORE)
    code_place.commit()
    for nodes in (6, 17, 30):
        kill_after(code_place, nodes)
    code_place.loopty("optimize")
    history = code_place.history()
    made = {history[node].commit for node in history.ids if node.parent}
    assert len(made) > 20
    assert made <= set(code_place.held_commits())
    code_place.git("gc", "--quiet", "--prune=now")
    code_place.git("fsck", "--strict")
    for node in list(history.ids)[1:]:
        assert code_place.git("cat-file", "-t", history[node].commit).strip() == "commit"
