"""Wrong use and bad input of every verb: two lines that name the cause, before anything is written, asked or moved."""

import pytest

from axbridge import Move, Rig, samples
from axbridge.cli.app import MISUSE
from axbridge.config.rig_edit import copy_rig
from axbridge.config.toml_tables import shipped
from axbridge.motion.moves import Key, Page
from axbridge.recording.stored import write_recording

pytestmark = pytest.mark.slow

WITH_A_RIG = (
    *("off", "doctor", "monitor", "view", "verify", "calibrate", "walk", "demo", "serve", "rig show"),
    *("record step", "play sample:bow", "servo info shoulder", "teach --out m.json"),
    *("export mujoco --out a.xml", "export bam --out a.json", "move convert sample:bow a.mtn"),
    *("move optimise sample:bow b.json", "sweep --over seed=0,1", "run idle.py --rig"),
)
ONE_WAY = {"rig show", "export mujoco --out a.xml", "export bam --out a.json", "serve", *WITH_A_RIG[-2:]}
IDENTIFY = "identify step.mcap --rig bench_arm --model ax12 --out"
WRONG_RIGS = (  # what is laid over the rig pan_tilt, and the fault that is named
    ('[[servo]]\nname = "tilt"\njoint = "nod"\n', "servo.tilt.joint: joint 'nod' is not in pan_tilt.urdf"),
    ('[[servo]]\nname = "tilt"\nregisters = { colour = 1 }\n', "servo.tilt.registers.colour: ax-12a has no such"),
    ('[[servo]]\nname = "tilt"\nregisters = { id = 3 }\n', "servo.tilt.registers.id: this is no setting of a rig"),
    ('[[servo]]\nname = "tilt"\nregisters = { torque_enable = 1 }\n', "torque_enable: this is no setting of a rig"),
    ("[safety]\npark = { pan = 30 }\n", "safety.park.pan: 30 rad is beyond the limits of 'pan', -2 to 2 rad"),
    ("[safety]\nvoltage = [14, 9]\n", "safety.voltage: these are no lowest and highest V"),
)
NO_PORT = "--port /dev/unheard_of"
REFUSED = [
    ("serv", "did you mean 'servo' or 'serve'?"),
    ("servo inof 1", "did you mean 'info'?"),
    ("servo goto 1", "see `axbridge servo goto --help`"),
    ("scan --prt x", "did you mean --port?"),
    ("scan /dev/x", "did you mean --port /dev/x?"),
    ("scan COM3", "did you mean --port COM3?"),
    ("scan --nosuch", "axbridge: no such option: --nosuch\n"),
    ("info a b", "one word too many: b"),
    ("info a b c", "2 words too many: b c"),
    ("info a --json=yes", "--json takes no value"),
    ("scan --port", "--port needs a value"),
    ("record", "experiment is missing: step, fall,"),
    ("servo set-id 1 300", "NEW must be at most 253, not '300'"),
    ("record step bench_arm --seed -1", "--seed must be at least 0, not '-1'"),
    ("record step bench_arm --amplitude x", "--amplitude must be a number, not 'x'"),
    ("record sine bench_arm --period 0", "period 0 s is not positive and finite"),
    ("run missing.py --rig bench_arm", "no such script"),
    ("run missing.py --duration -1", "--duration -1 is no time"),
    ("run missing.py --duration nan", "--duration nan is no time"),
    ("off --port /dev/none --baud 0", "0 is no baud rate"),
    ("identify a.mcap --rig bench_arm", "--model is missing: Servo model. To begin with"),
    ("rig new x --profile ax-12a", "add --urdf FILE.urdf"),
    ("record stepp --rig bench_arm", "did you mean 'step'?"),
    ("record step --rig bench_arm --backend rael", "did you mean 'real'?"),
    ("record step bench_arm --tick 16", "write --tick 16ms"),
    ("record step bench_arm --tick soon", "'soon' is no time"),
    ("play bow bioloid", "sample:bow comes with axbridge"),
    ("view a.mcap b.mcap --rig bench_arm", "both several recordings and --rig"),
    ("view a.mcap --model p.toml", "--model needs the rig"),
    ("view a.mcap --out p.pdf", "p.pdf: recordings are shown as a page\nname it .html"),
    ("view missing.mcap", "missing.mcap"),
    ("calibrate --rig pan_tilt --port /dev/none", "run `axbridge rig copy pan_tilt my_pan_tilt`"),
    ("verify --rig bioloid --only line,kneel --port /dev/none", "no step 'kneel'"),
    ("verify --rig bench_arm --only walk --port /dev/none", "has no legs that walk"),
    ("id", "servo set-id"), ("goto", "servo goto"), ("torque", "axbridge off"), ("simulate", "compare"),
    ("replay", "view FILE.mcap"), ("bench", "doctor"), ("version", "--version"), ("read", "servo read"),
    # ---- a file or a folder that is there, of another kind, or both read and written
    ("compare step.mcap --out mine.html", "mine.html is already there"),
    ("compare step.mcap --html mine.png", "mine.png is already there"),
    (f"{IDENTIFY} mine.toml", "mine.toml is already there"),
    (f"{IDENTIFY} new.toml --html mine.html", "mine.html is already there"),
    ("demo --out demo", "demo/report.html is already there"),
    ("demo --rig bioloid --out walk", "walk/report.png is already there"),
    (f"verify --rig bench_arm --out demo {NO_PORT}", "is already there"),
    (f"verify --rig bench_arm --out strange {NO_PORT}", "is not what `axbridge verify` wrote"),
    (f"verify --rig bench_arm --out mine.png {NO_PORT}", "mine.png"),
    ("teach --rig pan_tilt --out a.txt", "no such kind of move"),
    ("teach --rig pan_tilt --out /dev/full/a.json", "cannot be written"),
    ("move convert nod.json a.txt", "name it .json, .mtn or .motion"),
    ("move convert nod.json nod.json", "both read and to be written"),
    ("move convert nod.json bad.json", "already there"),
    *((f"play {name} --rig pan_tilt", name) for name in ("bad.json", "none.json", "none.mtn", "none.motion", "a.txt")),
    *((f"rig new {name}", f"{name} has no name for the rig\ngive the name of a new") for name in (".", "..", "/")),
    *(
        (f"{typed} y.csv", "axbridge: y.csv: a recording is no .csv file\nname it y.mcap; `axbridge convert` makes")
        for typed in (
            "record step bench_arm --out", "walk bioloid --record", "play nod.json pan_tilt --record",
            "run idle.py --rig bench_arm --record", "import sample:xl330",
        )
    ),
    # ---- names that a rig or a file does not have
    ("play nod.json --rig bench_arm", "robot 'bench_arm' has no servo pan, tilt"),
    ("play nod.json --rig pan_tilt --joints tail", "no joint tail"),
    ("play nod.json --rig pan_tilt --page 7", "no page '7'"),
    ("move convert nod.json a.mtn", "give --rig"),
    ("move convert nod.json a.mtn --rig bench_arm", "joint 'pan' has no id"),
    (f"calibrate --rig my_head/my_head.toml --joints tail {NO_PORT}", "has no servo 'tail'"),
    *(
        (f"{verb} --servo {name}", f"rig bench_arm has no servo '{name}'\nit has: shoulder (1)")
        for verb in ("record step bench_arm", "export bam bench_arm --out m.json", f"{IDENTIFY} p.toml")
        for name in ("elbow", "7")
    ),
    *((f"{verb} bench_amr", "did you mean 'bench_arm'?") for verb in WITH_A_RIG),
    *((f"{verb} --rig bench_amr", "did you mean 'bench_arm'?") for verb in WITH_A_RIG if verb not in ONE_WAY),
    *(
        (f"{typed} --model lima2008", "known names: ax12, ax18, lima2009")
        for typed in (
            "play knee.json bioloid", "walk bioloid", "run idle.py --rig bioloid", "view --no-open --rig bioloid",
            "serve bench_arm", "record step bench_arm", "compare step.mcap --rig xl330_pendulum",
        )
    ),
    # ---- values
    *((f"rig check wrong_{place}.toml", words) for place, (_, words) in enumerate(WRONG_RIGS)),
    ("serve bench_arm --faults dorp=0.1", "did you mean 'drop'"),
    ("serve bench_arm --faults dead:9", "there are 1"),
    ("serve bench_arm --timing slow", "known timings: wire, none"),
    ("serve bench_arm --tcp here", "HOST:PORT"),
    ("serve bench_arm --tcp 0.0.0.0:0", "--allow-remote"),
    ("serve bench_arm --model ax99", "ax12"),
    ("rig check wrong_0", "did you mean 'wrong_0.toml'? known names: bare_horn"),
    ("play nod.json --rig pan_tilt --pace 0", "pace of 0"),
    ("teach --rig pan_tilt --out a.json --duration -1", "--duration"),
    ("rig new mine --urdf arm.urdf", "add --profile"),
    ("rig new mine --urdf arm.urdf --profile ax-12a --ids 1,2", "6 joints of arm.urdf can turn"),
    ("rig new mine --urdf arm.urdf --profile ax-12a --ids 1,2,3,4,5,5", "5 appears twice"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for all rows, because none may change it."""
    made = tmp_path_factory.mktemp("refusals")
    nod = tuple(Key(positions={"pan": at, "tilt": at}, time=0.4) for at in (0.2, 0.0))
    Move(pages={"1": Page(keys=nod)}).save(made / "nod.json")
    Move(pages={"1": Page(keys=(Key(positions={"left_knee": 1.0}, time=0.1),))}).save(made / "knee.json")
    write_recording(samples.load("xl330"), made / "step.mcap")
    copy_rig(Rig.load("pan_tilt"), made / "my_head")
    files = dict.fromkeys(["mine.toml", "mine.html", "mine.png", "demo/report.html", "walk/report.png"], "kept")
    files |= {"strange/verify.json": "mine", "demo/verify.txt": "mine", "bad.json": "{}", "idle.py": ""}
    files |= {f"wrong_{place}.toml": f'base = "pan_tilt"\n{text}' for place, (text, _) in enumerate(WRONG_RIGS)}
    files["arm.urdf"] = (shipped("hil_rigs") / "koch" / "koch.urdf").read_text()
    for name, text in files.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(text)
    return made


@pytest.mark.parametrize(("typed", "words"), REFUSED)
def test_wrong_use_is_refused_in_two_lines_and_leaves_all_files_as_they_are(typed, words, folder, said, monkeypatch):
    def files():
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    monkeypatch.chdir(folder)
    before = files()
    refused = said(*typed.split(), code=MISUSE)
    assert words in refused
    assert refused.count("\n") <= 2
    assert files() == before
