"""The table of known causes: the first rule that recognises a failure explains it."""

from __future__ import annotations

from collections.abc import Callable

from loopty.features.setup.causes import (
    builds,
    failing_tests,
    limits,
    modules,
    programs,
    results,
    surroundings,
)
from loopty.features.setup.causes.failure import Failure, HostFacts
from loopty.show.explanation import Cause

Rule = Callable[[Failure, HostFacts], Cause | None]
"""Recognises one cause in what a trial printed and in facts of the machine; None where it is another one."""

# The first that matches counts, so the order does, too. A new rule is a function, a line here, and a row with real
# output in tests/features/setup/causes/test_known_causes.py.
RULES: tuple[Rule, ...] = (
    limits.out_of_time,
    surroundings.missing_gpu,
    programs.missing_rust_toolchain,
    limits.out_of_gpu_memory,
    limits.out_of_memory,
    limits.too_many_processes,
    limits.out_of_disk,
    limits.too_much_output,
    modules.file_of_the_candidate,
    modules.missing_build_requirement,
    modules.unbuilt_extension,
    modules.python_module_elsewhere,
    modules.script_inside_a_package,
    failing_tests.unknown_options,
    failing_tests.too_little_coverage,
    failing_tests.first_failed_test,
    failing_tests.failing_tests,
    failing_tests.failing_tests_of_a_suite,
    modules.missing_python_module,
    modules.missing_node_module,
    limits.missing_library,
    limits.no_network,
    surroundings.no_server,
    limits.no_temporary_folder,
    limits.no_git,
    surroundings.submodule,
    surroundings.path_ignored_by_git,
    surroundings.path_named_like_a_key,
    surroundings.path_beside_the_script,
    builds.parallel_make,
    builds.missing_test_framework,
    builds.missing_development_library,
    programs.missing_program,
    programs.no_permission,
    surroundings.read_only,
    results.unset_variable,
    results.params_as_text,
    results.score_is_not_finite,
    results.tool_output,
    results.measured_output,
    results.score_on_stdout,
    results.no_result,
    results.absent_metric,
    results.other_score_key,
)


def explain_failure(failure: Failure, facts: HostFacts) -> Cause | None:
    """Find the known cause of a failure, or None.

    Only for failures of the user's own code, a baseline or a check: what a candidate prints must not choose what
    the user is advised to mount or to install.
    """
    for rule in RULES:
        if cause := rule(failure, facts):
            return cause
    return None
