"""Pages in a browser: nothing overlaps, nothing is cut off, nothing is loaded from the network."""

from pathlib import Path

import numpy as np
import pytest

from axbridge.comparison.comparison import compare
from axbridge.comparison.html import write_html
from axbridge.comparison.page import Curve, Panel, figure_html, write_page
from axbridge.recording.recording import Event, Recording, Track
from tests.support.browser import CHROMIUM, browsing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

DARK_BLUE, LIGHTER = "#0072b2", "#3c9fe0"
INKED = "plot.ctx.getImageData(0, 0, plot.ctx.canvas.width, plot.ctx.canvas.height).data.some(part => part > 0)"
PLOTS = "[...drawn.values()][0]"  # of the first figure


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    def full(lag):
        """Return steps in both directions, with noise as the other quantities."""
        time, noise = np.arange(0, 8.0, 0.01), np.random.default_rng(1)
        goal = np.floor(time) % 2
        others = "torque", "velocity", "power", "load"
        columns = {key: noise.normal(size=len(time)) for key in others}
        columns |= {"position": np.interp(time - lag, time, goal), "command": goal}
        facts = [{"name": f"step {k}", "kind": "step", "target": float(k % 2)} for k in range(8)]
        events = tuple(Event(float(k), "segment", fact) for k, fact in enumerate(facts))
        return Recording(Path("s.mcap"), {"a": Track.of("a", time, **columns)}, events)

    path = tmp_path_factory.mktemp("page") / "report.html"
    write_html(compare(full(0.0), full(0.03), labels=("recorded", "simulated")), path)
    return path


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    with browsing(tmp_path_factory.mktemp("browser"), 1400, 1200) as opened:
        yield opened


@pytest.fixture
def tab(opened, page):
    tab = opened(page.as_uri())
    tab.wait_for(f"typeof drawn !== 'undefined' && {PLOTS}?.length === 6 && {PLOTS}.every(plot => {INKED})")
    yield tab
    tab.call("Page.close")


def texts(tab, selector):
    return tab.run(f"[...document.querySelectorAll('{selector}')].map(element => element.textContent.trim())")


def test_all_quantities_are_drawn_and_the_page_fits_a_phone(tab):
    assert texts(tab, ".legend b") == [
        "position, °", "error, °", "torque, N·m", "power at the shaft, W", "electrical power, W", "load, %",
    ]  # fmt: skip
    assert texts(tab, ".legend span")[:3] == ["goal", "recorded", "simulated"]
    heights = tab.run(f"{PLOTS}[0].data.slice(1).map(curve => Math.max(...curve))")
    assert heights == pytest.approx([np.degrees(1.0)] * 3, abs=0.002)  # not that of a neighbour
    for width in (1400, 400):
        tab.call("Emulation.setDeviceMetricsOverride", width=width, height=1200, deviceScaleFactor=1, mobile=False)
        tab.wait_for("document.documentElement.scrollWidth <= innerWidth")
        cells = "[...document.querySelectorAll('td:first-child')]"
        assert tab.run(f"Math.max(...{cells}.map(cell => cell.clientHeight))") < 40


@pytest.mark.parametrize("largest", [0.3, 0.45, 2.2, 4.0])
def test_a_low_panel_has_more_than_one_number_on_its_axis(opened, tmp_path, largest):
    time = np.linspace(0, 4, 200)
    residual = Panel((Curve(time, largest * np.sin(time), "", "error"),), "time, s", "residual, °", share=0.7)
    write_page(tmp_path / "page.html", "residual", [figure_html([residual], "one")])
    tab = opened((tmp_path / "page.html").as_uri())
    tab.wait_for(f"typeof drawn !== 'undefined' && {PLOTS}?.every(plot => {INKED})")
    numbers = tab.run(f"{PLOTS}[0].axes[1]._values.filter(text => text)")
    assert len(numbers) >= 2, numbers  # one alone tells no size
    tab.call("Page.close")


def test_a_click_on_a_worst_second_zooms_all_panels(tab):
    shown = f"{PLOTS}.map(plot => [plot.scales.x.min, plot.scales.x.max])"
    assert tab.run(shown)[0] == pytest.approx([0.0, 7.99], abs=0.01)
    second = tab.run(
        "(span => [Number(span.from), Number(span.to)])(document.querySelector('ol.worst button').dataset)"
    )
    tab.click("ol.worst button")
    tab.wait_for(f"({shown})[0][0] === {second[0]}")
    assert second[1] - second[0] == 2.0
    assert tab.run(shown) == [second] * 6


def test_a_dark_screen_gets_a_dark_page_with_lighter_blue(tab):
    drawn = f"{PLOTS}[0].series.slice(1).map(series => series.stroke())"
    assert DARK_BLUE in tab.run(drawn)
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    assert (LIGHTER in tab.run(drawn), DARK_BLUE in tab.run(drawn)) == (True, False)


def test_a_page_loads_nothing_from_the_network(opened, page, tab, tmp_path):
    assert (tab.hosts, tab.complaints) == ({""}, [])  # it is a file
    assert page.stat().st_size < 120e3
    asking = tmp_path / "asking.html"
    asking.write_text(page.read_text().replace("<body>", '<body><img src="http://127.0.0.1:9/x.png">'))
    asking_page = opened(asking.as_uri())
    asking_page.wait_for("document.readyState === 'complete'")
    assert any("Content Security Policy" in text for text in asking_page.complaints)
    asking_page.call("Page.close")
