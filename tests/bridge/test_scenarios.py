"""A robot, a bridge and a foreign program as processes of their own, in fault scenarios."""

import subprocess
import sys
from contextlib import ExitStack

import pytest

from axbridge.cli.app import HARDWARE
from axbridge.testing import serve
from tests.support.bridge_scenarios import CLIENT, SCENARIOS, Stations
from tests.support.waiting import until
from tests.support.warm import run


@pytest.fixture(scope="module")
def stations(tmp_path_factory):
    kept = Stations(tmp_path_factory.mktemp("stations"))
    yield kept
    kept.close()


@pytest.mark.parametrize(
    "scenario", [pytest.param(row, id=row.name, marks=[] if row.quick else [pytest.mark.ci]) for row in SCENARIOS]
)
def test_a_robot_behind_the_bridge_is_safe(stations, scenario):
    assert stations(scenario).play(scenario).wrong == []


@pytest.mark.ci
def test_a_bridge_works_while_its_output_is_not_read(tmp_path):
    command = [sys.executable, "-m", "axbridge", "bridge", "pan_tilt", "--link", str(tmp_path / "arm"), "--port"]
    pipe = subprocess.PIPE
    with (
        serve("pan_tilt") as robot,
        subprocess.Popen([*command, robot.port], stdout=pipe, stderr=pipe) as bridge,
        ExitStack() as ended,
    ):
        ended.callback(bridge.kill)
        bridge.stdout.readline()
        bridge.stdout.close()
        program = [sys.executable, CLIENT, tmp_path / "arm", "ax", "goes far"]
        with subprocess.Popen(program, stdout=pipe) as client:
            client.stdout.readline()  # its first goal causes a notice
            assert (bridge.poll(), robot.powered) == (None, [1, 2])
            client.kill()
        until(lambda: not robot.powered)
        bridge.terminate()
        assert b"notices are not printed any more: Broken pipe" in bridge.stderr.read()
        assert bridge.wait() == 0


@pytest.mark.ci
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "{} is in the way of the link\ngive another --link\n"),
        (("--tcp", "127.0.0.1:0"), "a program opens either --link or --tcp\ngive one of them\n"),
    ],
)
def test_a_bridge_that_no_program_could_use_has_no_summary_and_no_recording(tmp_path, options, why):
    link, record = tmp_path / "arm", tmp_path / "run.mcap"
    link.touch()
    with serve() as bus:
        ended = run("bridge", "bench_arm", "--record", record, "--port", bus.port, "--link", link, *options)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"axbridge: {why.format(link)}")
    assert not record.exists()


@pytest.mark.parametrize("before", [b"", b"an old recording"], ids=["no file", "a file"])
def test_a_bridge_that_cannot_start_leaves_the_file_that_it_should_replace(tmp_path, before):
    path = tmp_path / "day.mcap"
    if before:
        path.write_bytes(before)
    ended = run("bridge", "bench_arm", "--port", tmp_path / "nothing", "--record", path, "--force")
    assert ended.returncode == HARDWARE
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [before] * bool(before)
