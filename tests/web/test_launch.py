"""The verb starts a server, prints its address, and ends with the process that started it."""

import json
import subprocess
import sys
import urllib.parse
import urllib.request


def test_the_printed_address_opens_the_page(story):
    with subprocess.Popen(
        [sys.executable, "-m", "loopty", "dashboard", "--json", "--ends-with-input"],
        cwd=story.top,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        url = json.loads(process.stdout.readline())["url"]
        with urllib.request.urlopen(url, timeout=60) as page:
            assert page.status == 200
        place = urllib.parse.urlsplit(url)
        assert place.hostname == "127.0.0.1"
        secret = {"X-Loopty-Token": place.fragment.removeprefix("token=")}
        question = urllib.request.Request(f"http://{place.netloc}/api/session", headers=secret)
        with urllib.request.urlopen(question, timeout=60) as answer:
            assert json.load(answer)["run"] == 1
        process.stdin.close()
        assert process.wait(60) == 0


def test_with_an_input_that_nobody_can_end_it_ends_at_once(story):
    command = [sys.executable, "-m", "loopty", "dashboard", "--json", "--ends-with-input"]
    ended = subprocess.run(command, cwd=story.top, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, b"")
