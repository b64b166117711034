import pytest

from axbridge.fit.search import executor


@pytest.fixture(scope="session")
def spread():
    """Worker processes for the search, shared by tests: their start takes longer than the jobs."""
    with executor() as running:
        yield running
