"""The table of known causes: the first rule that recognises a failure explains it."""

from __future__ import annotations

from collections.abc import Callable

from loopty.causes import (
    absent_results,
    failing_suites,
    failing_tests,
    missing_gpu,
    missing_libraries,
    missing_modules,
    missing_paths,
    missing_programs,
    missing_servers,
    not_finite,
    parallel_builds,
    slow_suites,
    strict_compilers,
    trial_limits,
    unbuilt_extensions,
)
from loopty.causes.cause import Cause
from loopty.causes.failure import Failure
from loopty.causes.host_facts import HostFacts

Rule = Callable[[Failure, HostFacts], Cause | None]
"""Recognises one cause in what a trial printed and in facts of the machine; None where it is another one."""

RULES: tuple[Rule, ...] = (
    slow_suites.pyperf_out_of_time,
    slow_suites.tests_out_of_time,
    slow_suites.build_out_of_time,
    trial_limits.out_of_time,
    missing_gpu.missing_gpu,
    missing_programs.missing_rust_toolchain,
    trial_limits.out_of_gpu_memory,
    trial_limits.out_of_memory,
    trial_limits.too_many_processes,
    trial_limits.out_of_disk,
    trial_limits.too_much_output,
    missing_modules.file_of_the_candidate,
    unbuilt_extensions.missing_build_requirement,
    unbuilt_extensions.unbuilt_extension,
    missing_modules.python_module_elsewhere,
    missing_modules.script_inside_a_package,
    failing_tests.unknown_options,
    failing_tests.too_little_coverage,
    failing_tests.first_failed_test,
    failing_tests.failing_tests,
    slow_suites.unbuilt_test_programs,
    slow_suites.unbuilt_rest,
    failing_suites.failing_tests_of_a_suite,
    missing_modules.missing_python_module,
    missing_modules.missing_node_module,
    missing_modules.missing_go_module,
    trial_limits.missing_library,
    trial_limits.no_network,
    missing_servers.no_server,
    trial_limits.no_temporary_folder,
    trial_limits.no_git,
    missing_paths.submodule,
    missing_paths.path_ignored_by_git,
    missing_paths.path_named_like_a_key,
    missing_paths.path_beside_the_script,
    parallel_builds.parallel_make,
    missing_libraries.missing_bundled_copy,
    missing_libraries.missing_test_framework,
    missing_libraries.missing_googletest_folder,
    missing_libraries.missing_development_library,
    missing_programs.missing_perl_module,
    missing_programs.missing_program,
    missing_programs.no_permission,
    missing_paths.read_only,
    strict_compilers.strict_compiler,
    strict_compilers.strict_vet,
    absent_results.unset_variable,
    absent_results.params_as_text,
    not_finite.score_is_not_finite,
    absent_results.tool_output,
    absent_results.score_on_stdout,
    absent_results.no_result,
    absent_results.absent_metric,
    absent_results.other_score_key,
)


def explain_failure(failure: Failure, facts: HostFacts) -> Cause | None:
    """The known cause of a failure, or None.

    Only for failures of the user's own code, a baseline or a check: what a candidate prints must not choose what
    the user is advised to mount or to install.
    """
    for rule in RULES:
        if cause := rule(failure, facts):
            return cause
    return None
