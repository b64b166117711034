"""What becomes of RoboPlus page sets: read, converted, within limits, played, and how the robot ends: RESULTS.md.

python benchmarks/motion_pages.py FOLDER              each .mtn file in it, and its named pages on a simulated Bioloid
python benchmarks/motion_pages.py FOLDER --files      the files alone
python benchmarks/motion_pages.py FOLDER --torso 0.411   with a torso of that mass, kg

Every page is played as `axbridge play FILE --page NAME` plays it. Pages that get up begin on the face or the back. A
page that leads back to itself is asked to end after 8 s, and goes out by its exit pages.
"""

import argparse
import math
import re
import tempfile
import warnings
from pathlib import Path

import axbridge
from axbridge import UsageError
from axbridge.config.rig import Rig
from axbridge.motion.files import load_move
from axbridge.motion.mtn import in_sevens, joints_of, load_mtn, move_of, mtn_of, parse_mtn
from axbridge.motion.player import play
from axbridge.pool import workers
from axbridge.rotations import of_axis, roll_pitch_yaw

BIOLOID = Rig.load("bioloid")
JOINTS = joints_of(BIOLOID)
FEET = {"right_ankle_lateral_link", "left_ankle_lateral_link"}
LYING = {"f getup": 90.0, "b getup": -90.0}  # degrees about y: on its face, on its back
STOP = 8.0  # s: when a page that never ends is asked to
COUNT = math.radians(300 / 1023)


def rig(engine, model, torso):
    """The Bioloid there, with those servos, and with a torso of that mass, kg."""
    found = BIOLOID.with_engine(engine).with_model(model)
    if torso is None:
        return found
    text = found.urdf_text()
    begin = text.index('<link name="torso">')
    end = text.index("</inertial>", begin)
    old = float(re.search(r'mass value="([^"]*)"', text[begin:end])[1])
    lighter = re.sub(r'mass value="[^"]*"', f'mass value="{torso}"', text[begin:end])
    lighter = re.sub(r'(i[xyz]{2})="([^"]*)"', lambda m: f'{m[1]}="{float(m[2]) * torso / old:.4g}"', lighter)
    folder = Path(tempfile.mkdtemp())
    (folder / "bioloid.urdf").write_text(text[:begin] + lighter + text[end:])
    return found.model_copy(update={"path": folder / "bioloid.toml"})


def steps(file, number, link):
    """Every step from a page on, as servos and time see it, until the pages end or come again."""
    found, seen = [], set()
    while number and number not in seen:
        seen.add(number)
        page = file.pages[number - 1]
        once = [(step.positions[1:19], step.pause / page.speed, step.play / page.speed) for step in page.steps]
        found += once * (page.repeat if link == "next" else 1)
        number = getattr(page, link)
    return found


def same(one, other):
    """Whether all pages of one set do the same in the other, played on and asked to end."""
    used = [number for number, page in enumerate(one.pages, 1) if page.steps]
    return all(steps(one, n, link) == steps(other, n, link) for n in used for link in ("next", "exit"))


def file_row(path):
    """One line of the files' table."""
    file = load_mtn(path)
    split, said = in_sevens(file)
    again = parse_mtn(split.data(path), path)
    by_json, _ = mtn_of(move_of(file, JOINTS)[0], JOINTS)
    ways = "yes" if again == split and same(file, again) else "no"
    other = "yes" if same(file, by_json) and [page.steps == () for page in by_json.pages] == [
        page.steps == () for page in split.pages
    ] else "no"  # fmt: skip
    used = sum(bool(page.steps) for page in file.pages)
    return (
        f"| {path.name} | {used} | {'; '.join(file.warnings) or 'nothing odd'} | {len(said) or ''} | {ways} | {other} "
        f"| {out_of_limits(path) or 'yes'} |"
    )


def out_of_limits(path):
    """Which servos the file's poses send how far out."""
    limits = {servo.name: (servo.id, *servo.soft_limits) for servo in BIOLOID.servos}
    worst = {}
    for page in load_move(path, BIOLOID)[0].pages.values():
        for key in page.keys:
            for joint, angle in key.positions.items():
                id_, low, high = limits[joint]
                out = max(low - angle, angle - high) / COUNT
                if out > 0.5:
                    worst[id_] = max(worst.get(id_, 0.0), out)
    return ", ".join(f"id {id_} by {out:.0f} counts" for id_, out in sorted(worst.items()))


def ended(job):
    """How the robot is two seconds after a page, in words."""
    path, page, engine, model, torso = job
    warnings.simplefilter("ignore")
    move, _ = load_move(path, BIOLOID)
    lying = LYING.get(move.pages[page].name.strip().lower().replace("_", " "))
    with axbridge.open(rig(engine, model, torso)) as robot:
        if lying is not None:
            for servo in robot.values():
                servo.torque_on()
            robot.simulation.place_base(((0.0, 0.0, 0.09), of_axis((0, 1, 0), math.radians(lying))))
            rest(robot, 2.0)
        until = math.inf if move.chain(page)[1] is None else robot.time + STOP
        try:
            play(robot, move, page=page, stop=lambda: robot.time > until, note=lambda _: None)
        except UsageError as refused:
            return f"refused: {str(refused).split(' (')[0]}"
        rest(robot, 2.0)
        (x, y, height), turned = robot.simulation.base
        roll, pitch, _ = (math.degrees(angle) for angle in roll_pitch_yaw(turned))
        touching = {contact.link for contact in robot.simulation.engine.contacts()}
    if touching == FEET:
        way = f", {100 * math.hypot(x, y):.0f} cm on" if math.hypot(x, y) > 0.05 else ""
        return f"stands, leans {pitch:.0f}°, {abs(roll):.0f}° aside, {1000 * height:.0f} mm{way}"
    return f"is down, {pitch:.0f}°, {roll:.0f}°, {1000 * height:.0f} mm"


def rest(robot, seconds):
    """Hold."""
    until = robot.time + seconds
    while robot.time < until - 1e-9:
        robot.step()


def main():
    """Both tables."""
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("--files", action="store_true")
    options.add_argument("--model")
    options.add_argument("--engines", default="bullet,mujoco")
    options.add_argument("--page", help="only pages of this name")
    options.add_argument("--torso", type=float)
    chosen = options.parse_args()
    paths, engines = sorted(chosen.folder.glob("*.mtn")), chosen.engines.split(",")
    print("| file | pages | as found | split | by .mtn | by .json | within limits |\n|---|---|---|---|---|---|---|")
    for path in paths:
        print(file_row(path), flush=True)
    if chosen.files:
        return
    print(f"\n| file | page | {' | '.join(engines)} |\n|---|---|{'---|' * len(engines)}")
    pages = [
        (path, number)
        for path in paths
        for number, page in load_move(path, BIOLOID)[0].pages.items()
        if page.keys and page.name.strip() and chosen.page in (None, page.name.strip())
    ]
    with workers() as pool:
        jobs = [(path, number, engine, chosen.model, chosen.torso) for path, number in pages for engine in engines]
        found = iter(pool(ended, jobs))
        for path, number in pages:
            name = load_move(path, BIOLOID)[0].pages[number].name.strip()
            print(f"| {path.name} | {name} | {' | '.join(next(found) for _ in engines)} |", flush=True)


if __name__ == "__main__":
    main()
