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
    "--disable-background-networking", "--disable-sync", "--virtual-time-budget=5000",
)  # fmt: skip

# Boxes of all words in the figures, what is wider than the page, and what the page may not load, told in its title.
MEASURE = """<script>
const refused = [];
addEventListener("securitypolicyviolation", event => refused.push(event.blockedURI));
addEventListener("load", () => setTimeout(() => {
  const words = [...document.querySelectorAll(".js-plotly-plot :is(.annotation-text, [class*=tick] text, .xtitle)")];
  document.title = JSON.stringify({
    words: words.map(word => [word.textContent, word.getBoundingClientRect().toJSON()]),
    lines: document.querySelectorAll(".js-plotly-plot .scatterlayer path.js-line").length,
    colours: [...new Set([...document.querySelectorAll(".js-plotly-plot path.js-line")].map(
      line => getComputedStyle(line).stroke))],
    keys: [...document.querySelectorAll(".legend i")].map(key => getComputedStyle(key).backgroundColor),
    wide: document.documentElement.scrollWidth, window: innerWidth,
    cells: [...document.querySelectorAll("td:first-child")].map(cell => [cell.textContent, cell.clientHeight]),
    paper: getComputedStyle(document.body).backgroundColor,
    refused: refused,
    ink: [...new Set(words.map(word => getComputedStyle(word).fill))],
  });
}, 1000))</script>"""

DARK_BLUE = "rgb(0, 114, 178)"

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
    done = subprocess.run(
        [BROWSER, *QUIET, f"--user-data-dir={folder / 'profile'}", *options, "--dump-dom", copy.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return json.loads(html.unescape(re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)[1]))


@pytest.mark.parametrize("width", [1400, pytest.param(500, marks=pytest.mark.ci)])  # chromium's window is no narrower
def test_no_words_overlap_and_nothing_is_wider_than_the_window(page, tmp_path, width):
    seen = browse(page, tmp_path, f"--window-size={width},1200")
    assert seen["lines"] >= 12
    names = [text for text, _ in seen["words"]]
    assert {"position, °", "error, °", "torque, N·m", "electrical power, W", "time, s"} <= set(names)
    for index, (text, a) in enumerate(seen["words"]):
        for other, b in seen["words"][:index]:
            across = min(a["right"], b["right"]) - max(a["left"], b["left"])
            down = min(a["bottom"], b["bottom"]) - max(a["top"], b["top"])
            assert across <= 1 or down <= 3, (text, other)  # a line's box is higher than its letters
    assert seen["wide"] <= seen["window"]
    assert all(height < 40 for _, height in seen["cells"]), "words are broken"


@pytest.mark.ci
def test_a_dark_screen_gets_a_dark_page_with_light_words(page, tmp_path):
    seen = browse(page, tmp_path, "--blink-settings=preferredColorScheme=0")
    assert seen["paper"] == "rgb(20, 24, 29)"
    assert seen["ink"] == ["rgb(227, 232, 238)"]
    assert DARK_BLUE not in seen["colours"]
    assert set(seen["keys"]) <= set(seen["colours"])  # the legend names the colours that are drawn
    light = browse(page, tmp_path)
    assert DARK_BLUE in light["colours"]
    assert set(light["keys"]) <= set(light["colours"])


def test_no_other_machine_is_asked_and_none_could_be(page, tmp_path):
    seen = browse(page, tmp_path)
    assert seen["lines"] >= 12
    assert seen["refused"] == []
    asking = tmp_path / "asking.html"
    asking.write_text(page.read_text().replace("<body>", '<body><img src="http://127.0.0.1:9/x.png">'))
    assert browse(asking, tmp_path)["refused"] == ["http://127.0.0.1:9/x.png"]
