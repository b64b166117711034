"""A recording's name is taken when it begins: nobody else records into it, and nothing that cannot be read is left."""

import subprocess
import sys
import textwrap
from importlib import import_module

import numpy as np
import pytest

from axbridge.cli.app import run
from axbridge.errors import RecordingError
from axbridge.recording.csv_parquet import write_csv
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Recording, Track
from axbridge.recording.stored import open_recording, write_recording
from tests.support.samples import record
from tests.support.warm import start

for verb in ("demo", "import_", "play", "record", "run", "walk"):
    import_module(f"axbridge.cli.{verb}")

TAKEN = r"run.mcap: is being recorded by another program\ngive another name"


def sample(recorder, number):
    record(recorder, 0.01 * number)


def test_a_second_recording_into_one_file_is_refused_and_the_first_one_is_whole(tmp_path):
    path = tmp_path / "run.mcap"
    path.write_text("an older one")
    with Recorder(path, {}) as first:
        for number in range(100):
            sample(first, number)
            with pytest.raises(RecordingError, match=TAKEN):
                Recorder(path, {})
    found = open_recording(path)
    assert found.complete
    assert len(found["a"]) == 100
    with Recorder(path, {}) as next_one:  # which may replace it now
        sample(next_one, 1)
    assert len(open_recording(path)["a"]) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["run.mcap"]


def test_a_name_is_free_again_when_its_program_was_killed(tmp_path):
    path = tmp_path / "run.mcap"
    script = "import sys, time; from axbridge.recording.recorder import Recorder; Recorder(sys.argv[1], {}); print('on', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "on\n"
        with pytest.raises(RecordingError, match=TAKEN):
            Recorder(path, {})
        process.kill()
    Recorder(path, {}).close()


@pytest.mark.slow
def test_of_programs_that_begin_at_once_one_records_and_the_others_are_refused(tmp_path):
    command = ["record", "sine", "--rig", "bench_arm", "--duration", "20", "--force", "--out", tmp_path / "run.mcap"]
    programs = [start(*command) for _ in range(3)]
    ends = [(program.communicate(timeout=120), program.returncode) for program in programs]
    wrote = [said for (said, _), code in ends if code == 0]
    assert all("is being recorded" in err for (_, err), code in ends if code == 2)
    assert sorted({code for _, code in ends}) in ([0], [0, 2])  # one after the other, on a slow machine
    assert wrote
    found = open_recording(tmp_path / "run.mcap")
    assert found.complete
    assert found.end == pytest.approx(20.0, abs=0.1)


def test_a_file_that_was_moved_away_while_it_was_recorded_is_whole_where_it_is(tmp_path):
    recorder = Recorder(tmp_path / "run.mcap", {})
    sample(recorder, 1)
    (tmp_path / "run.mcap").rename(tmp_path / "moved.mcap")
    with Recorder(tmp_path / "run.mcap", {}) as other:
        sample(other, 1)
        sample(other, 2)
        recorder.close()
    assert len(open_recording(tmp_path / "moved.mcap")["a"]) == 1
    assert len(open_recording(tmp_path / "run.mcap")["a"]) == 2


def test_a_disk_that_is_full_from_the_start_leaves_no_empty_file(tmp_path):
    script = textwrap.dedent(
        """
        import resource, sys
        from axbridge.recording.recorder import Recorder
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        Recorder(sys.argv[1], {})
        """
    )
    command = [sys.executable, "-c", script, str(tmp_path / "run.mcap")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "run.mcap: cannot be written: File too large\nchoose a writable folder with free space" in done.stderr
    assert not list(tmp_path.iterdir())


def test_names_as_long_as_the_system_takes_are_recorded_and_converted(tmp_path):
    path = tmp_path / f"{'n' * 250}.mcap"
    with Recorder(path, {}) as recorder:
        sample(recorder, 1)
    assert open_recording(path).complete
    write_recording(Recording(path, {"a": Track.of("a", np.arange(3.0))}), path)
    assert write_csv(open_recording(path), tmp_path / f"{'n' * 251}.csv") == 3
    with pytest.raises(RecordingError, match="File name too long"):
        Recorder(tmp_path / f"{'n' * 252}.mcap", {})


@pytest.mark.parametrize(
    "arguments",
    [
        ("record", "step", "--rig", "bench_arm", "--out"),
        ("walk", "--rig", "bioloid", "--record"),
        ("play", "sample:bow", "--rig", "bioloid", "--record"),
        ("run", "script.py", "--rig", "bench_arm", "--record"),
        ("import", "sample:xl330"),
    ],
)
def test_a_recording_is_not_written_into_what_says_it_is_a_table(tmp_path, capsys, arguments):
    table = tmp_path / "y.csv"
    assert run([*arguments, str(table)]) == 2
    assert capsys.readouterr().err == (
        f"axbridge: {table}: a recording is no .csv file\n"
        f"name it {table.with_suffix('.mcap')}; `axbridge convert` makes a table of it\n"
    )
    assert not list(tmp_path.iterdir())
