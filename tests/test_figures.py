"""The figures and the data-sheet table of docs/physics.md, and the walk's figure, are what this code gives."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "physics.md").read_text()
TABLE = PAGE.partition("<!-- table -->\n")[2].partition("\n<!-- end -->")[0]


@pytest.fixture(scope="module")
def tool():
    sys.path.insert(0, str(ROOT / "tools"))
    import make_figures

    yield make_figures
    sys.path.remove(str(ROOT / "tools"))


REAL = 64.0  # rpm at 12 V, where the sheet says 59: six steps of a real AX-12A


def rows(table=TABLE):
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {float(line[0]): [float(cell) if cell else None for cell in line[1:]] for line in lines}


def test_the_table_is_what_the_simulated_servo_does(tool):
    simulated = rows(tool.data_sheet())
    assert sorted(simulated) == sorted(rows()) == [7.0, 9.6, 10.0, 11.1, 12.0]
    for supply, cells in rows().items():
        for written, found in zip(cells, simulated[supply], strict=True):
            assert found == (written if written is None else pytest.approx(written, abs=0.011, rel=2e-3))


def test_the_simulated_servo_is_near_its_data_sheet():
    for supply, (paper, ours, sheet, ampere, known_ampere, *_) in rows().items():
        if sheet:
            assert paper == pytest.approx(sheet, rel=0.09)
            assert ours == pytest.approx(sheet if supply < 12 else REAL, rel=0.05)
        if known_ampere:
            assert ampere == pytest.approx(known_ampere, rel=0.01)
    assert rows()[12.0][6] == pytest.approx(1.5, rel=0.02)


@pytest.mark.ci
@pytest.mark.bullet
def test_every_figure_is_drawn(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "OUT", tmp_path)
    for draw in tool.FIGURES:
        draw()
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in (ROOT / "docs" / "figures").iterdir()}
    pages = PAGE + (ROOT / "docs" / "walking.md").read_text()
    assert all(f"figures/{name}" in pages for name in drawn)
