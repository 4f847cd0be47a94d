"""Settings for all tests."""

from hypothesis import settings

# The same examples on every machine and every run: a red test is a change, never luck.
settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")
