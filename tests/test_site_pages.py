"""The generated pages of the reference and of the site agree with the code."""

import re
from types import SimpleNamespace

import pytest
import typer.main

from axbridge.cli.app import app
from axbridge.config.toml_tables import shipped_names
from tests.cli.test_help import verbs
from tools import site_pages
from tools.reference_pages import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_reference_agrees_with_the_code(name):
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run python -m tools.reference_pages"


@pytest.fixture(scope="module")
def pages():
    return site_pages._pages()


@pytest.mark.slow
def test_the_command_line_page_has_every_verb_with_its_example_and_its_options(pages):
    page = pages["cli.md"]
    for verb, command in verbs():
        assert f"# {verb}\n" in page
        assert f"$ {command.epilog.removeprefix('Example: ')}\n" in page
    record = page.split("### record\n")[1].split("\n### ")[0]
    options = typer.main.get_command(app).commands["record"].params
    assert all(f"`{name}`" in record for option in options if option.name != "experiment" for name in option.opts[:1])
    assert "| `--seed` | Seed of all random numbers. | `0` |" in record


@pytest.mark.slow
def test_every_rig_is_drawn_and_every_example_is_shown(pages):
    for name in shipped_names("hil_rigs"):
        assert pages[f"rigs/{name}.png"].startswith(b"\x89PNG")
        assert f"![{name}](rigs/{name}.png)" in pages["rigs-gallery.md"]
    programs = [path.name for path in (site_pages.ROOT / "examples").glob("*.py")]
    assert programs
    assert all(f"\n`{name}`:\n" in pages["examples.md"] for name in programs)
    assert "\n## Move a servo: the smallest program\n\n`wave.py`:\n" in pages["examples.md"]


@pytest.mark.slow
def test_the_navigation_has_a_title_for_every_module(pages):
    for page in ("api.md", "api-inside.md"):
        headings = re.findall(
            r"^::: (\S+)\n(?:    options:\n      heading_level: 3\n)((?:      .*\n)*)", pages[page], re.MULTILINE
        )
        assert headings
        for name, options in headings:
            title = site_pages.HEADINGS.get(name)
            assert title or name.rsplit(".", 1)[1][0].isupper(), f"{name} is a module: it needs a title"
            assert not title or f"toc_label: {title}\n" in options


@pytest.mark.parametrize(
    ("page", "text", "wanted"),
    [
        ("design.md", "[this](../CONTRIBUTING.md#a), [that](rigs.md)", "[this](contributing.md#a), [that](rigs.md)"),
        ("index.md", "[a](examples/README.md)", "[a](examples.md)"),
        ("examples.md", "[a](../docs/motion.md#play)", "[a](motion.md#play)"),
        ("index.md", "[a](docs/rigs.md) ![b](docs/images/demo.png)", "[a](rigs.md) ![b](images/demo.png)"),
        ("view.md", r"| `--model NAME\|FILE` | a \| b |", r"| `--model NAME|FILE` | a \| b |"),  # no backslash there
    ],
)
def test_links_and_bars_are_converted_for_the_site(page, text, wanted):
    assert site_pages.on_page_markdown(text, SimpleNamespace(file=SimpleNamespace(src_uri=page))) == wanted
