"""Nodes are not in the list of branches, unless the user wants them there."""


def test_a_search_makes_no_branch(code_place):
    code_place.loopty("optimize", "--quiet")
    assert len(list(code_place.history().ids)) > 3
    assert code_place.git("branch", "--all", "--format=%(refname:short)").split() == ["main"]


def test_a_branch_of_a_node_is_its_exact_commit(code_place):
    code_place.loopty("optimize", "--quiet")
    made = code_place.json("branch", "@2")
    assert made == {"node": "1.1", "handle": 2, "branch": "loopty-1.1", "commit": code_place.commit_of("1.1")}
    assert code_place.git("rev-parse", "loopty-1.1").strip() == made["commit"]
    assert "loopty-1.1" in code_place.loopty("branch", "1.1").stdout, "doing it again changes nothing"
    code_place.git("branch", "mine")
    refused = code_place.loopty("branch", "1.1", "--name", "mine", code=2)
    assert "--name, or move it with --force" in refused.stderr
    code_place.loopty("branch", "1.1", "--name", "mine", "--force")
    assert code_place.git("rev-parse", "mine").strip() == made["commit"]


def test_a_draft_has_no_branch(code_place):
    code_place.loopty("run", "1")
    code_place.loopty("new", "--parent", "1")
    assert "is a draft: run `loopty run @2` first" in code_place.loopty("branch", "1.1", code=2).stderr


def test_the_user_can_have_a_branch_for_every_node(code_place):
    code_place.git("config", "loopty.branches", "true")
    code_place.loopty("optimize", "--quiet")
    history = code_place.history()
    for node in history.ids:
        assert code_place.git("rev-parse", node.branch).strip() == history[node].commit
