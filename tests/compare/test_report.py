"""The report says what the comparison found, in a page, a picture and text."""

import re
from pathlib import Path

import pytest

from axbridge.compare.comparison import compare
from axbridge.compare.html import write_html
from axbridge.compare.png import FIGURES, _brief, write_png
from axbridge.compare.tables import deviation_table, response_table
from axbridge.errors import RecordingError
from axbridge.record.recording import Recording
from axbridge.report.page import Table, table_text
from tests.compare.test_metrics import recording


@pytest.fixture(scope="module")
def comparison():
    return compare(recording(), recording(lag=0.03, scale=1.02), labels=("real", "sim"))


def test_tables_are_lined_up(comparison):
    text = table_text(deviation_table(comparison))
    assert text.startswith("sim against real\nservo")
    assert len({len(line) for line in text.splitlines()[1:]}) == 1
    rows = {row[0]: row[1:] for row in response_table(comparison, comparison.pairs[0]).rows}
    assert float(rows["steady-state error, °"][1]) == pytest.approx(-1.72, abs=0.02)


def test_the_page_is_self_contained(comparison, tmp_path):
    write_html(comparison, tmp_path / "report.html", title="a <servo>")
    page = (tmp_path / "report.html").read_text()
    assert "a &lt;servo&gt;" in page
    assert "rise time 10-90 %" in page
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page)


def test_the_picture_is_a_png(comparison, tmp_path):
    write_png(comparison, tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


def test_figures_beside_a_picture_are_no_more_than_fit():
    wide = Table("", ("", "real", "sim"), tuple((f"rise {k}", "1", "2") for k in range(5)))
    assert _brief(wide).rows == wide.rows
    errors = tuple((f"RMSE in {k}", "", str(k)) for k in range(20))
    crowded = _brief(Table("", wide.header, (*wide.rows * 3, *errors)))
    assert crowded.rows[0] == ("RMSE in 0", "0")
    assert crowded.rows[-1] == ("and 9 more", "")
    assert len(crowded.rows) == FIGURES + 1


def test_many_servos_fit_into_one_picture(tmp_path):
    tracks = {f"joint_{i}": recording().tracks["a"] for i in range(14)}
    both = Recording(Path("x.mcap"), tracks)
    write_png(compare(both, both), tmp_path / "many.png")
    assert (tmp_path / "many.png").stat().st_size > 10_000


def test_a_report_that_cannot_be_written_leaves_what_was_there(comparison, tmp_path):
    (tmp_path / "file").touch()
    for write in (write_html, write_png):
        with pytest.raises(RecordingError, match="cannot be written"):
            write(comparison, tmp_path / "file" / "x")
        with pytest.raises(RecordingError, match="folder"):
            write(comparison, tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
