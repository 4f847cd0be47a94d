"""Attack every sandbox here by `loopty doctor --attack`, and print the tables of docs/research/attacks.md.

python scripts/attack_table.py [LOOPTY]
python scripts/attack_table.py --strangers    # only the table of who else may be hostile, and where it is tested
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

KINDS = {"namespaces": "namespaces", "bubblewrap": "bubblewrap", "landlock": "Landlock"}
WORDS = {"held": "held", "gap": "gap", "BROKEN": "THROUGH", "UNTRIED": "not tried", "not applicable": "n/a"}

TESTS = Path(__file__).resolve().parent.parent / "tests"
STRANGERS = {
    "a clone": (
        "test_strangers.py::test_a_clone_that_brings_links_into_loopty_s_folder_is_refused",
        "test_hostile_git.py::test_a_repository_with_a_hostile_configuration_runs_no_monitor_hook_or_diff",
        "test_trust.py::test_nothing_runs_before_the_user_says_yes",
    ),
    "an artifact": (
        "test_strangers.py::test_an_artifact_with_links_in_loopty_s_folder_is_refused",
        "test_export.py::test_a_tampered_artifact_is_refused_and_nothing_of_it_runs",
    ),
    "a worker": (
        "test_worker_pool.py::test_a_worker_that_speaks_nonsense_is_sent_away",
        "test_hostile_values.py::test_a_report_of_a_worker_is_refused_or_can_be_recorded",
    ),
    "a driver that is not the worker's": (
        "test_worker_door.py::test_a_driver_with_another_certificate_is_refused",
        "test_postgres.py::test_a_driver_that_was_taken_for_dead_and_comes_back_changes_nothing",
    ),
    "a driver that has the worker's secret": (
        "test_worker_folder.py::test_a_driver_that_lies_has_its_order_refused",
        "test_worker_folder.py::test_a_driver_gets_nothing_of_the_machine_without_the_workers_yes",
    ),
    "a hypervisor or a module of the kernel": (),
    "a real server of MLflow or Weights & Biases": (),
    "an agent": (
        "test_agent_tools.py::test_an_agent_reaches_no_other_draft_and_no_state",
        "test_mailbox.py::test_hostile_letters_are_answered_or_ignored_and_harm_nobody",
    ),
    "a model and its server": (
        "test_models_hostile.py::test_a_model_can_change_only_writable_files",
        "test_provider_faults.py::test_an_endless_answer_is_abandoned",
    ),
    "another page in the browser": (
        "test_access.py::test_another_site_gets_nothing",
        "test_views.py::test_hostile_text_stands_there_as_text_with_its_control_characters_named",
    ),
    "another user of the machine": (
        "test_private_state.py::test_another_user_reaches_nothing_of_it",
        "test_user_cache.py::test_a_cache_below_a_folder_of_another_user_is_not_used",
        "test_local_slots.py::test_whoever_takes_the_name_of_the_lock_folder_stops_nobody",
    ),
    "a host with broken MCP framing": ("test_mcp_server.py::test_what_is_no_request_gets_one_valid_line",),
    "an agent with broken ACP framing": (
        "test_acp_client.py::test_an_agent_that_breaks_off_is_said_to_have_failed",
    ),
    "a server that exports go to": (
        "test_trackers.py::test_neither_hostile_names_nor_a_hostile_server_stop_the_export_with_a_traceback",
        "test_web_post.py::test_a_redirect_is_a_refusal_and_reaches_nobody_else",
    ),
    "a server that notices go to": (
        "test_web_post.py::test_a_server_that_never_comes_to_an_end_holds_up_nobody",
        "test_notice_sender.py::test_no_text_of_a_notice_is_run_or_becomes_a_header",
    ),
    "a store on S3": ("test_stores.py::test_a_hostile_server_gets_a_fault_in_one_line",),
    "a store in a directory": (
        "test_stores.py::test_no_link_in_a_directory_is_followed",
        "test_hostile_store.py::test_a_hostile_folder_is_refused",
    ),
    "a PostgreSQL server": (
        "test_hostile_postgres.py::test_no_answer_of_a_server_is_a_traceback_or_has_no_end",
        "test_hostile_postgres.py::test_a_password_is_not_sent_as_it_is_where_anybody_may_listen",
    ),
}
"""Who else may be hostile → the tests that try it, in whichever folder their file is."""


def strangers() -> list[str]:
    """The lines of the second table. Raises LookupError where a test is not there."""
    lines = ["| who is hostile | tested in | |", "|---|---|---|"]
    for stranger, tests in STRANGERS.items():
        for test in tests:
            file, _, name = test.partition("::")
            if not any(f"def {name}(" in path.read_text(encoding="utf-8") for path in TESTS.rglob(file)):
                raise LookupError(f"{test}, by which {stranger} is tried, is not below {TESTS}")
        files = dict.fromkeys(f"`{test.partition('::')[0]}`" for test in tests)
        lines.append(f"| {stranger} | {', '.join(files)} | {'held' if tests else 'not tried'} |")
    return lines


def attack(loopty: str, kind: str) -> list[dict[str, str]]:
    """Run all attacks on a sandbox of this kind."""
    with tempfile.TemporaryDirectory() as folder:
        command = (loopty, "doctor", "--attack", "--json", "--sandbox", kind)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"{kind}: {done.stderr}")
    rows: list[dict[str, str]] = json.loads(done.stdout)
    return rows


def cell(standings: Mapping[str, int]) -> str:
    """`24 held, 1 n/a`."""
    return ", ".join(f"{count} {WORDS.get(standing, standing)}" for standing, count in standings.items())


def main() -> None:
    if sys.argv[1:] != ["--strangers"]:
        print_attacks()
    print("\n".join(["", *strangers()]))


def print_attacks() -> None:
    """Run all attacks, which takes minutes, and print the first table."""
    loopty = sys.argv[1] if len(sys.argv) > 1 else str(Path(sys.executable).with_name("loopty"))
    found: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for kind in KINDS:
        for row in attack(loopty, kind):
            found[row["threat"]][kind][row["standing"]] += 1
            found["all"][kind][row["standing"]] += 1
    found["**all**"] = found.pop("all")
    print(f"| a candidate tries to | {' | '.join(KINDS.values())} |")
    print(f"|---{'|---' * len(KINDS)}|")
    for threat, by_kind in found.items():
        print(f"| {threat} | {' | '.join(cell(by_kind[kind]) for kind in KINDS)} |")


if __name__ == "__main__":
    main()
