"""Settings for all tests, and what is said at their end."""

from collections import Counter

from hypothesis import HealthCheck, settings

from loopty.attacks.runner import AttackStanding

# The same examples on every machine and every run, however slow: a red test is a change, never luck.
settings.register_profile("fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fixed")


# Not in the folder of the attacks: what runs the tests side by side loads no conftest below the one it is given.
def pytest_terminal_summary(terminalreporter) -> None:
    # Each test reports three times: as it is set up, called and taken down.
    found = (report for reports in terminalreporter.stats.values() for report in reports)
    reports = [report for report in found if getattr(report, "when", "") == "call"]
    standings = Counter(value for report in reports for name, value in report.user_properties if name == "attack")
    if standings:
        others = "".join(f", {count} {name}" for name, count in standings.items() if name != AttackStanding.HELD)
        terminalreporter.write_line(
            f"attack suite: {standings.total()} attacks, {standings[AttackStanding.HELD]} held{others}"
        )
