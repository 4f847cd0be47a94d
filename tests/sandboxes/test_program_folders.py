"""What a sandbox shows for a program of the user."""

from loopty.sandboxes.installations import program_folders


def test_a_program_of_npm_is_shown_with_all_packages_beside_it(tmp_path):
    packages = tmp_path / "tools/node_modules"
    script = packages / "@maker/agent/node_modules/inner/run.js"
    script.parent.mkdir(parents=True)
    script.write_text("")
    (packages / ".bin").mkdir()
    (packages / ".bin/agent").symlink_to(script)
    assert set(program_folders(packages / ".bin/agent", tmp_path / "home")) == {packages}


def test_a_program_of_an_environment_is_shown_with_the_environment(tmp_path):
    (tmp_path / "v/bin").mkdir(parents=True)
    (tmp_path / "v/pyvenv.cfg").write_text("")
    (tmp_path / "v/bin/agent").write_text("")
    assert set(program_folders(tmp_path / "v/bin/agent", tmp_path / "home")) == {tmp_path / "v"}


def test_of_any_other_folder_only_the_program_itself_is_shown(tmp_path):
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions/2.1").write_text("")
    (tmp_path / "agent").symlink_to(tmp_path / "versions/2.1")
    assert set(program_folders(tmp_path / "agent", tmp_path)) == {tmp_path / "agent", tmp_path / "versions/2.1"}
