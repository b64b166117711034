"""The figures of docs/physics.md and of the walk, the data sheet's table and docs/how-real.md agree with the code."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "physics.md").read_text()
TABLE = PAGE.partition("<!-- table -->\n")[2].partition("\n<!-- end -->")[0]


@pytest.fixture(scope="module")
def tools():
    """Return two scripts of the folder `tools`, which import each other by name."""
    sys.path.insert(0, str(ROOT / "tools"))
    yield import_module("make_figures"), import_module("make_how_real")
    sys.path.remove(str(ROOT / "tools"))


REAL_NO_LOAD_RPM = 64.0  # rpm at 12 V, from six steps of a real AX-12A; the data sheet has 59


def rows(table=TABLE):
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {float(line[0]): [float(cell) if cell else None for cell in line[1:]] for line in lines}


def test_the_table_agrees_with_the_simulated_servo(tools):
    simulated = rows(tools[0].data_sheet())
    assert sorted(simulated) == sorted(rows()) == [7.0, 9.6, 10.0, 11.1, 12.0]
    for supply, cells in rows().items():
        for written, value in zip(cells, simulated[supply], strict=True):
            assert value == (written if written is None else pytest.approx(written, abs=0.011, rel=2e-3))


def test_the_simulated_servo_is_near_its_data_sheet():
    for supply, (paper, ours, sheet, ampere, known_ampere, *_) in rows().items():
        if sheet:
            assert paper == pytest.approx(sheet, rel=0.09)
            assert ours == pytest.approx(sheet if supply < 12 else REAL_NO_LOAD_RPM, rel=0.05)
        if known_ampere:
            assert ampere == pytest.approx(known_ampere, rel=0.01)
    assert rows()[12.0][6] == pytest.approx(1.5, rel=0.02)


@pytest.mark.ci
@pytest.mark.bullet
def test_every_figure_is_drawn(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(tools[0], "OUT", tmp_path)
    for draw in tools[0].FIGURES:
        draw()
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in (ROOT / "docs" / "figures").iterdir()}
    pages = PAGE + (ROOT / "docs" / "walking.md").read_text()
    assert all(f"figures/{name}" in pages for name in drawn)


@pytest.mark.parametrize("names", ["FREE", pytest.param("LOADED", marks=pytest.mark.ci)])
def test_the_simulator_follows_the_real_servo_within_the_errors_of_its_time_stamps(tools, names):
    tool = tools[1]
    steps = [tool.real(name) for name in getattr(tool, names)]
    path = tool.simulated("ax12", steps[0].inertia)
    for step in steps:
        _, error = tool.shift(step.stamps, step.counts, *path)
        _, restored = tool.shift(step.times, step.counts, *path)
        assert error < tool.floor(step, *path) + 0.12
        assert error < 1.35
        assert restored < 0.55
        for value, real in zip(tool.swing(path[1], path[1][-1]), tool.swing(step.counts, step.rest), strict=True):
            assert value == pytest.approx(real, abs=1.0)


def test_the_table_of_real_steps_agrees_with_the_simulator(tools):
    tool = tools[1]
    page = (ROOT / "docs" / "how-real.md").read_text()
    cells = [[cell.strip() for cell in line.split("|")] for line in page.splitlines() if line.startswith("| AX12A")]
    rows = {name: cells for _, name, *cells, _ in cells}
    assert list(rows) == [*tool.FREE, *tool.LOADED]
    step = tool.real(tool.LOADED[1])
    path = tool.simulated("ax12", step.inertia)
    written = [float(cell.rstrip("°")) for cell in rows[step.name]]
    assert written[0] == pytest.approx(tool.swing(step.counts, step.rest)[0], abs=0.06)
    assert written[1] == pytest.approx(tool.swing(path[1], path[1][-1])[0], abs=0.35)  # a count of noise
    assert written[7] == pytest.approx(tool.shift(step.stamps, step.counts, *path)[1], abs=0.05)
