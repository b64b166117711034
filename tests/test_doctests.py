"""Examples in docstrings run, and give what they say."""

import doctest
from importlib import import_module

import pytest

from tools.import_graph import modules

pytestmark = pytest.mark.slow

WITH_EXAMPLES = sorted(
    f"axbridge.{name}".rstrip(".") for name, path in modules().items() if ">>>" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_do_what_they_say(name):
    tried = doctest.testmod(import_module(name), verbose=False)
    assert tried.attempted > 0
    assert tried.failed == 0
