"""Pages as a browser draws them: nothing overlaps, nothing is cut off, no other machine is asked."""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from axbridge.comparison.comparison import compare
from axbridge.comparison.html import write_html
from axbridge.recording.recording import Recording, Track
from tests.comparison.test_report import strides

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update",
    "--disable-background-networking", "--disable-sync", "--virtual-time-budget=20000",
)  # fmt: skip

# What is drawn, what is wider than the page, and what the page may not load, told in its title.
MEASURE = """<script>
const refused = [];
addEventListener("securitypolicyviolation", event => refused.push(event.blockedURI));
addEventListener("load", () => setTimeout(() => {
  const [box, plots] = [...drawn][0], second = document.querySelector("ol.worst button");
  const before = [plots[0].scales.x.min, plots[0].scales.x.max];
  second.click();
  setTimeout(() => { document.title = JSON.stringify({
    words: [...document.querySelectorAll(".legend b")].map(word => word.textContent),
    labels: [...document.querySelectorAll(".legend span")].map(word => word.textContent.trim()),
    lines: plots.reduce((all, plot) => all + plot.series.length - 1, 0),
    height: plots[0].data.slice(1).map(curve => Math.max(...curve)),
    before: before, after: plots.map(plot => [plot.scales.x.min, plot.scales.x.max]),
    second: [Number(second.dataset.from), Number(second.dataset.to)],
    inked: plots.map(plot => plot.ctx.getImageData(0, 0, plot.ctx.canvas.width, plot.ctx.canvas.height)
      .data.some(part => part > 0)),
    colours: plots[0].series.slice(1).map(one => one.stroke()),
    keys: [...document.querySelectorAll(".legend i")].map(key => getComputedStyle(key).backgroundColor),
    wide: document.documentElement.scrollWidth, window: innerWidth,
    cells: [...document.querySelectorAll("td:first-child")].map(cell => [cell.textContent, cell.clientHeight]),
    paper: getComputedStyle(document.body).backgroundColor,
    refused: refused,
  }); }, 200);
}, 1000))</script>"""

DARK_BLUE, LIGHTER = "#0072b2", "#3c9fe0"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="needs chromium")]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    def full(lag):
        run = strides(8, lag)
        track, noise = run.tracks["a"], np.random.default_rng(1)
        more = {key: noise.normal(size=len(track)) for key in ("torque", "velocity", "power", "load")}
        columns = {"position": track.position, "command": track.command} | more
        return Recording(run.path, {"a": Track.of("a", track.time, **columns)}, run.events)

    path = tmp_path_factory.mktemp("page") / "report.html"
    write_html(compare(full(0.0), full(0.03), labels=("recorded", "simulated")), path)
    return path


def browse(page, folder, *options):
    """What the page tells of itself once it is drawn."""
    copy = folder / "measured.html"
    copy.write_text(page.read_text().replace("<body>", f"<body>{MEASURE}"))
    for turn in range(6):  # on a busy computer it may dump the page before the page has measured itself
        done = subprocess.run(
            [BROWSER, *QUIET, f"--user-data-dir={folder / f'profile{turn}'}", *options, "--dump-dom", copy.as_uri()],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        title = html.unescape(re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)[1])
        if title.startswith("{"):
            return json.loads(title)
    raise AssertionError(title)


@pytest.mark.parametrize("width", [1400, pytest.param(500, marks=pytest.mark.ci)])  # chromium's window is no narrower
def test_every_quantity_is_drawn_and_nothing_is_wider_than_the_window(page, tmp_path, width):
    seen = browse(page, tmp_path, f"--window-size={width},1200")
    assert seen["words"] == ["position, °", "error, °", "torque, N·m", "power at the shaft, W", "electrical power, W",
                             "load, %"]  # fmt: skip
    assert seen["labels"][:3] == ["goal", "recorded", "simulated"]
    assert seen["lines"] == 12
    assert seen["height"] == pytest.approx([np.degrees(1.0)] * 3, abs=0.002)  # what was recorded, not its neighbour
    assert all(seen["inked"])
    assert seen["wide"] <= seen["window"]
    assert all(height < 40 for _, height in seen["cells"]), "words are broken"


def test_a_click_on_one_of_the_worst_seconds_shows_it_in_every_panel(page, tmp_path):
    seen = browse(page, tmp_path)
    assert seen["before"] == pytest.approx([0.0, 7.99], abs=0.01)
    assert seen["second"][1] - seen["second"][0] == 2.0
    assert seen["after"] == [seen["second"]] * 6


@pytest.mark.ci
def test_a_dark_screen_gets_a_dark_page_with_lighter_blue(page, tmp_path):
    dark = browse(page, tmp_path, "--blink-settings=preferredColorScheme=0")
    assert dark["paper"] == "rgb(20, 24, 29)"
    assert (LIGHTER in dark["colours"], DARK_BLUE in dark["colours"]) == (True, False)
    light = browse(page, tmp_path)
    assert DARK_BLUE in light["colours"]
    for seen in (dark, light):  # the legend names the colours that are drawn
        drawn = {f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})" for colour in seen["colours"]}
        assert set(seen["keys"][:3]) == drawn


def test_no_other_machine_is_asked_and_none_could_be(page, tmp_path):
    seen = browse(page, tmp_path)
    assert seen["refused"] == []
    assert page.stat().st_size < 120e3
    asking = tmp_path / "asking.html"
    asking.write_text(page.read_text().replace("<body>", '<body><img src="http://127.0.0.1:9/x.png">'))
    assert browse(asking, tmp_path)["refused"] == ["http://127.0.0.1:9/x.png"]
