"""Sweeps: the figures of each robot, equal on every machine and after the loss of a worker."""

import subprocess
import sys
import textwrap

import pytest

from axbridge.cli.app import run
from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.learn.sweep import changed, figures, parse_axes, sweep

pytestmark = pytest.mark.slow


def test_axes_are_lists_and_ranges():
    axes = parse_axes(["friction=0.02,0.05", "latency=0:40:3", "seed=0:2:3,7"])
    assert axes == {"friction": (0.02, 0.05), "latency": (0.0, 20.0, 40.0), "seed": (0.0, 1.0, 2.0, 7.0)}
    malformed = "friction", "friction=x", "friction=0:1:0", "friction=nan", "seed=-1", "seed=0.5"
    for wrong in ("frictoin=1", *malformed):
        with pytest.raises(UsageError, match="did you mean 'friction'" if wrong == "frictoin=1" else wrong):
            parse_axes([wrong])
    for many in (["latency=0:40:100000000"], ["latency=0:40:1000", "friction=0:1:1000"]):
        with pytest.raises(UsageError, match="more than 100000 robots"):
            parse_axes(many)


@pytest.mark.ci
def test_latency_delays_a_step_and_friction_slows_a_fall():
    rig, done = Rig.load("bench_arm"), []
    rows = sweep(rig, parse_axes(["latency=0,30"]), "step.delay", report=lambda *shares: done.append(shares))
    early, late = (row["delay"] for row in rows)
    assert late - early == pytest.approx(0.030, abs=0.003)
    assert done == [(0, 2), (1, 2), (2, 2)]
    free, held = (figures((rig, {"friction": friction}, "fall", 0)) for friction in (0.0, 0.005))
    assert pytest.approx(0.4036, abs=0.0015) == free["time"] < held["time"]  # 0.4036 s: by scipy


def test_friction_is_all_dry_friction_on_both_sides_of_the_play():
    """Most friction of an ax12 is behind the backlash; earlier only the part before it was scaled."""
    rig = Rig.load("bench_arm").with_model("ax12")
    before, after = (r.specs[r.servos[0].name].model.friction for r in (rig, changed(rig, {"friction": 0.06})))
    assert before.output > before.coulomb > 0
    assert after.coulomb + after.output == pytest.approx(0.06)
    assert after.output / after.coulomb == pytest.approx(before.output / before.coulomb)
    alone = changed(rig, {"friction.coulomb": 0.06})
    assert alone.specs[alone.servos[0].name].model.friction.output == before.output


@pytest.mark.ci
def test_the_verb_prints_a_table_and_refuses_wrong_options(tmp_path, capsys, said):
    command = ["sweep", "bench_arm", "--over", "supply=9.6,11.1", "--metric", "step.rise"]
    assert run([*command, "--out", "table.csv"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert (table[0].split(), len(table)) == (["supply_V", "rise_s"], 4)
    head, *rows = (line.split(",") for line in (tmp_path / "table.csv").read_text().splitlines())
    assert [*head, rows[0][0]] == ["supply_V", "rise_s", "9.6"]
    slow, fast = (float(rise) for _, rise in rows)
    assert slow > 1.1 * fast
    for wrong, words in (
        ([*command[:-1], "stepp"], "did you mean 'step'?"),
        ([*command[:-1], "step.rice"], "it has: delay, rise"),
        ([*command[:3], "efficiency=2"], "efficiency"),
        ([*command[:3], "supply=-5"], "supply_voltage: must be more than 0"),
        ([*command, "--executor", "ray://x"], "dask://HOST:PORT"),
    ):
        assert words in said(*wrong, code=2)


@pytest.mark.ci
def test_a_metric_that_a_rig_does_not_allow_is_refused_and_a_nan_has_its_cause(capsys):
    for rig, metric, words in (
        ("so101", "fall", ("its weight does not turn shoulder_pan", "--metric step,")),
        ("bench_arm", "walk", ("no joint left_hip_lateral", "--metric step or fall,")),
    ):
        began = []
        with pytest.raises(UsageError, match=words[0]) as refused:
            sweep(Rig.load(rig), {"latency": [0.0]}, metric, report=lambda *done, began=began: began.append(done))
        assert (words[1] in str(refused.value), began) == (True, [])
    command = ["sweep", "pendulum:mass=0.2,length=0.15", "--metric", "fall", "--over"]
    assert run([*command, "friction=0.01,0.3"]) == 0
    printed = capsys.readouterr()
    assert "nan" in printed.out
    assert "no time in row 2: the arm was not within 5° of 0°" in printed.err
    assert run([*command, "friction=0.3"]) == 1


@pytest.mark.ci  # tests/test_pool.py asks a cluster in `make test`
def test_a_dask_cluster_gives_the_same_rows_after_the_loss_of_a_worker(tmp_path):
    pytest.importorskip("distributed")
    script = textwrap.dedent("""
        import os, signal
        from distributed import LocalCluster
        from axbridge.config.rig import Rig
        from axbridge.learn.sweep import parse_axes, sweep

        if __name__ == "__main__":
            axes = parse_axes(["latency=0:40:3", "seed=0:3:4"])
            rig = Rig.load("bench_arm")
            with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
                address = cluster.scheduler_address.replace("tcp", "dask")
                killed = []

                def report(done, of):
                    if done == 3 and not killed:
                        killed.append(next(iter(cluster.workers.values())).pid)
                        os.kill(killed[0], signal.SIGKILL)

                there = sweep(rig, axes, "step", where=address, report=report)
            assert killed
            assert there == sweep(rig, axes, "step")
            print("same")
    """)
    (tmp_path / "both.py").write_text(script)
    done = subprocess.run([sys.executable, tmp_path / "both.py"], capture_output=True, text=True, timeout=180)
    assert done.stdout.strip().endswith("same"), done.stderr[-2000:]
