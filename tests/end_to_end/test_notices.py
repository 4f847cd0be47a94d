"""A run tells its user what happened; where, stands in the user's own file."""

import json
import sys


def test_a_run_sends_what_its_user_wants_to_know(code_place, tmp_path, monkeypatch):
    got, script = tmp_path / "got", tmp_path / "take.py"
    script.write_text(f"import sys\nopen({str(got)!r}, 'a').write(sys.stdin.read() + '\\n')\n")
    (tmp_path / "config/loopty").mkdir(parents=True)
    (tmp_path / "config/loopty/config.toml").write_text(
        f"[notify]\ncommand = {json.dumps([sys.executable, str(script)])}\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    shown = code_place.loopty("notify", "--test")
    assert "a test was sent to each" in shown.stderr
    code_place.loopty("optimize", "--quiet")
    kinds = [json.loads(line)["kind"] for line in got.read_text().splitlines()]
    assert kinds[0] == "test"
    assert json.loads(got.read_text().splitlines()[0])["repository"], "a chat shows where it comes from"
    assert kinds[-1] == "finished"
    assert "budget-100" in kinds


def test_without_a_table_the_verb_shows_how_to_write_one(code_place):
    shown = code_place.loopty("notify")
    assert "write a table [notify]" in shown.stdout
    assert code_place.loopty("notify", "--test", code=1).stdout == shown.stdout
