import pytest

from axbridge.fit.search import executor


@pytest.fixture(scope="session")
def spread():
    """Processes that do jobs of the search: getting ready takes them longer than the jobs."""
    with executor() as running:
        yield running
