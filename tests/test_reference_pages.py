"""Pages of the reference that are made from the code are up to date."""

import pytest

from tools.reference_pages import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_says(name):
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run python -m tools.reference_pages"
