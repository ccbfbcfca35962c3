"""Settings shared by all tests."""

from hypothesis import settings

# The same examples on every machine and in every run; a failure prints how to repeat it.
settings.register_profile("plan", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("plan")
