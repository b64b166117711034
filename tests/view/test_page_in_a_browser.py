"""The live page in a headless Chromium, with servos on a served bus."""

import math
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import axbridge
from axbridge.bus.serial import SerialBus
from axbridge.cli import app
from axbridge.config.registers import Instruction
from tests.support.browser import CHROMIUM, browsing
from tests.support.pty_line import PtyLine
from tests.support.robot_files import write_comb
from tests.support.waiting import until as wait_until
from tests.support.warm import serving
from tests.view.test_replay import record_swing

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

SIZE = 1024, 768
DRAWN = "window.axbridge?.body?.drawn"
TEXT = "document.body.innerText"
GOAL = "[...document.querySelectorAll('td.track input')].map(one => Number(one.value))"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    with browsing(tmp_path_factory.mktemp("browser"), *SIZE) as opened:
        yield opened


@contextmanager
def stepping(robot):
    """Run a program that steps the robot; yields the list of its exceptions."""
    raised, ending = [], threading.Event()

    def steps():
        try:
            while not ending.is_set() and robot.step() != -1:
                pass
        except axbridge.AxBridgeError as error:
            raised.append(error)

    thread = threading.Thread(target=steps)
    thread.start()
    try:
        yield raised
    finally:
        ending.set()
        thread.join()


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder of one's own: poses and recordings lie where one starts."""
    folder, before = tmp_path_factory.mktemp("desk"), Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


@pytest.fixture(scope="module")
def comb(desk):
    """Three servos on a line, a robot on them that is stepped, and its page."""
    with (
        PtyLine((1, 2, 3), link=desk / "port") as line,
        axbridge.open(write_comb(desk, 3), backend="real", port=line.port) as robot,
    ):
        page = robot.view(port=0, open=False)
        with stepping(robot) as raised:
            yield line, robot, page
        assert raised == []


@pytest.fixture(scope="module")
def shared_tab(comb, opened):
    tab = opened(comb[2].url)
    tab.wait_for(DRAWN)
    return tab


@pytest.fixture
def tab(comb, shared_tab):
    """Return the page of a robot that is not stopped, with its motors off."""
    line, robot, page = comb
    shared_tab.call("Page.bringToFront")
    page.release()
    page.requests.ask(None, lambda: page.actions.torque(list(robot), on=False))
    wait_until(lambda: not robot.stopped and not any(table[24] for table in line.tables.values()))
    shared_tab.wait_for(f"{TEXT}.includes('all motors are limp') || {TEXT}.includes('all motors are off')")
    return shared_tab


def wait_until_stopped(line, robot, seconds=120):
    wait_until(lambda: robot.stopped and not any(table[24] for table in line.tables.values()), seconds)


def switch_on(line, page):
    """Switch every motor on from the page; again where a busy machine has lost a packet."""

    def are_on():
        page.requests.ask("test", lambda: page.actions.torque(list(page.robot), on=True))
        time.sleep(0.2)
        return all(servo.torque_enabled for servo in page.robot.values())

    wait_until(are_on)
    wait_until(lambda: all(table[24] for table in line.tables.values()))


def press_on(tab, element, share=0.5):
    """Press an element, a JavaScript expression, at this share of its width."""
    box = tab.wait_for(f"({element})?.getBoundingClientRect().toJSON()")
    tab.click_at(box["x"] + share * box["width"], box["y"] + box["height"] / 2)


def slide(tab, servo, share):
    press_on(tab, f"document.querySelector('tr[data-servo={servo}] td.track input')", share)


@pytest.mark.ci
def test_the_page_loads_from_its_own_host_moves_the_servo_and_reports_the_end_of_its_program(opened, desk):
    with serving("bench_arm") as port:
        command = [sys.executable, "-m", "axbridge", "view", "--rig", "bench_arm", "--backend", "real", "--port", port]
        start = [*command, "--no-open", "--page-port", "0"]
        with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as view:
            try:
                url = view.stdout.readline().split()[1]
                tab = opened(url)
                tab.wait_for(DRAWN)
                limp = tab.picture()
                slide(tab, "shoulder", 0.3)
                tab.wait_for("document.querySelector('.on input').checked")  # its motor is on
                goal = tab.run(GOAL)[0]
                tab.wait_for(f"Math.abs({GOAL}[0] - {goal}) < 0.3")
                assert len(set(limp)) > 100  # something is drawn
                assert tab.picture() != limp
            finally:
                view.kill()
        tab.wait_for(f"{TEXT}.includes('axbridge has ended')")
        assert tab.run("getComputedStyle(document.getElementById('state')).visibility") == "hidden"
        assert tab.hosts == {url.split("/")[2]}
        assert [text for text in tab.complaints if "ERR_CONNECTION_REFUSED" not in text] == []
        tab.call("Page.close")
        with SerialBus(port) as bus:
            counts = int.from_bytes(bus.read(1, 30, 2).data, "little")
            assert abs((counts - 512) * 300 / 1023 - goal) < 0.5
            assert bus.read(1, 24, 1).data == b"\0"


def thumb(tab):
    tab.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    box = tab.wait_for("document.getElementById('off').getBoundingClientRect().toJSON()")
    assert box["bottom"] == 800  # where the thumb is
    assert box["width"] == 390
    tab.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": 200, "y": box["y"] + 30}])
    tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    tab.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.ci
@pytest.mark.parametrize(
    "press",
    [lambda tab: press_on(tab, "document.getElementById('off')"), lambda tab: tab.key(" ", "Space", 32), thumb],
    ids=["mouse", "key", "thumb"],
)
def test_all_off_switches_every_motor_off_within_50_ms(comb, tab, press):
    line, robot, page = comb

    def seconds():
        switch_on(line, page)
        tab.wait_for("document.querySelector('.on input').checked")
        line.received.clear()
        press(tab)
        wait_until(lambda: not any(table[24] for table in line.tables.values()))
        off = [when for _, code, data, when in line.received if code == Instruction.WRITE and data == bytes((24, 0))]
        assert robot.stopped
        tab.click("#release")
        wait_until(lambda: not robot.stopped)
        return off[0] - page.requests.cleared_at

    assert any(seconds() < 0.05 for _ in range(5))  # the others: this computer was busy


def test_all_off_works_while_the_page_is_too_busy_to_draw(comb, tab):
    line, robot, page = comb
    switch_on(line, page)
    busy = "const end = performance.now() + 400; while (performance.now() < end);"
    tab.run(f"window.busy = setInterval(() => {{ {busy} }}, 410)")
    try:
        tab.key("Escape", "Escape", 27)
        wait_until_stopped(line, robot, 5)
    finally:
        tab.run("clearInterval(window.busy)")
    page.release()


# The element with the focus when the key is pressed, in JavaScript, and the drawer that it is in.
ELEMENTS = {
    "check box": ("", "document.querySelector('.on input')"),
    "slider": ("", "document.querySelector('td.track input')"),
    "button": ("", "document.getElementById('measure')"),
    "number": ("servo", "document.querySelector('aside input[inputmode=decimal]')"),
    "dropdown": ("robot", "document.querySelector('aside select')"),
    "text": ("robot", "document.querySelector('aside input.wide')"),
    "nothing": ("", "document.activeElement"),
}


@pytest.mark.parametrize(
    "element",
    [one if one in {"number", "slider", "nothing"} else pytest.param(one, marks=pytest.mark.ci) for one in ELEMENTS],
)
def test_space_and_escape_switch_every_motor_off_and_do_nothing_else_whatever_has_the_focus(comb, tab, element):
    line, robot, page = comb
    drawer, find = ELEMENTS[element]
    fields = "document.querySelectorAll('aside input[type=range], aside select')"  # not the goal: it is empty when off
    state = f"JSON.stringify([...{fields}].map(one => one.value))"
    if drawer:
        button = f"document.querySelector('[data-drawer={drawer}]')"
        tab.run(f"{button}.ariaPressed === 'true' || {button}.click()")
    for key in ((" ", "Space", 32), ("Escape", "Escape", 27)):
        switch_on(line, page)
        tab.wait_for(f"{TEXT}.includes('3 of 3 motors are on')")
        tab.run(f"{find}.focus()")
        before = tab.run(state)
        tab.key(*key)
        wait_until_stopped(line, robot)
        tab.wait_for(f"{TEXT}.includes('all motors are off')")
        assert tab.run(state) == before
        tab.click("#release")
        wait_until(lambda: not robot.stopped)
        time.sleep(0.1)
        assert not any(table[24] for table in line.tables.values())  # and nothing that was pressed comes after it


@pytest.mark.ci
def test_a_typed_number_is_not_overwritten_and_is_sent_on_enter_or_on_leaving_the_field(comb, tab):
    _, robot, page = comb
    servo, field = robot["s1"], "document.querySelector('aside input[inputmode=decimal]')"
    tab.click("tr[data-servo=s1] td:nth-child(2)")
    page.requests.ask("test", lambda: page.actions.move("s1", 0.0))
    tab.wait_for(f"Number({field}.value) === 0")
    for text, leave, wanted, message in (
        ("-40", lambda: tab.key("Enter", "Enter", 13), -40, ""),
        ("12,5", lambda: tab.key("Tab", "Tab", 9), 12.5, ""),
        ("4e1", lambda: tab.key("Enter", "Enter", 13), None, "is no number"),
    ):
        page.requests.ask("way", lambda: page.actions.move_to({"s1": 1.4}, 8.0))
        tab.run(f"{field}.focus(), {field}.select()")
        targets = []
        for letter in text:
            before = servo.target_position
            tab.call("Input.insertText", text=letter)
            wait_until(lambda before=before: servo.target_position > before)  # what is behind the field goes on
            targets.append(servo.target_position)
        assert tab.run(f"{field}.value") == text
        assert targets == sorted(targets)  # on its way, and to none of the digits
        leave()
        if wanted is None:
            tab.wait_for(f"{TEXT}.includes('{message}')")
            before = servo.target_position
            wait_until(lambda before=before: servo.target_position > before)  # it goes on as it was
        else:
            wait_until(lambda wanted=wanted: abs(servo.target_position - math.radians(wanted)) < 1e-3)
            tab.wait_for(f"Number({field}.value) === {wanted}")


@pytest.mark.ci
def test_a_click_in_the_picture_or_in_the_table_chooses_a_servo_and_its_curves(comb, tab):
    spot = """(() => { for (let y = 5; y < axbridge.body.seen.height; y += 6)
      for (let x = 5; x < axbridge.body.seen.width; x += 6) if (axbridge.body.servoAt(x, y) === 1) return [x, y]; })()"""
    tab.click("tr[data-servo=s3] td:nth-child(2)")
    tab.wait_for("window.axbridge?.chosen.join() === 's3' && axbridge.plot.series.length === 3")
    tab.wait_for("document.querySelector('tr[aria-selected]').dataset.servo === 's3'")
    tab.wait_for("document.querySelector('aside h2').textContent === 's3'")
    box = tab.wait_for("document.querySelector('canvas').getBoundingClientRect().toJSON()")
    x, y = tab.wait_for(spot)
    tab.click_at(box["x"] + x, box["y"] + y)
    tab.wait_for("window.axbridge?.chosen.join() === 's2' && location.hash.includes('servo=s2')")


@pytest.mark.ci
def test_the_page_fits_at_twice_the_size_and_uses_the_dark_mode_of_the_system(comb, tab, opened):
    zoomed = opened("about:blank")
    zoomed.call("Emulation.setDeviceMetricsOverride", width=700, height=450, deviceScaleFactor=2, mobile=False)
    zoomed.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    zoomed.call("Page.navigate", url=comb[2].url)
    zoomed.wait_for(DRAWN)
    assert zoomed.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    assert zoomed.run("document.documentElement.scrollWidth <= innerWidth")
    for part, least in (("canvas", 200), ("#servos", 300), ("#off", 100), ("#curves", 600)):
        seen = zoomed.run(f"document.querySelector('{part}').getBoundingClientRect().toJSON()")
        assert seen["width"] >= least, part
        assert seen["bottom"] <= 450, part
    zoomed.call("Page.close")


def test_a_browser_without_webgl_gets_a_still_picture_and_a_working_stop(comb, tmp_path):
    line, robot, page = comb
    with browsing(tmp_path, *SIZE, graphics=False) as opened:
        tab = opened(page.url)
        tab.wait_for("window.axbridge?.body?.drawn && !axbridge.body.gl")
        inked = "axbridge.body.plain.getImageData(0, 0, 400, 400).data.filter(part => part > 0).length"
        assert tab.run(inked) > 1000
        for press in (lambda: tab.key(" ", "Space", 32), lambda: tab.click("#off")):
            switch_on(line, page)
            press()
            wait_until_stopped(line, robot)
            page.release()
            wait_until(lambda: not robot.stopped)


@pytest.mark.filterwarnings("ignore:.*the motors keep their last goals:axbridge.errors.ControlWarning")
def test_a_lost_port_is_shown_and_a_frozen_page_continues_with_the_present_state(comb, tab):
    line, robot, _ = comb
    line.unplug()
    tab.wait_for("document.querySelector('#said.bad')?.textContent.includes('port lost: looking for it')")
    line.replug()
    tab.wait_for("!document.querySelector('#said').textContent.includes('port lost: looking for it')")
    tab.call("Page.setWebLifecycleState", state="frozen")
    before = robot.time
    wait_until(lambda: robot.time > before + 3.0)
    tab.call("Page.setWebLifecycleState", state="active")
    tab.call("Page.bringToFront")
    tab.wait_for(f"window.axbridge?.source.times.at(-1) > {before + 3.0}")
    tab.wait_for("!document.querySelector('[role=alert]')")


@pytest.mark.ci
def test_two_pages_show_the_same_and_the_robot_continues_when_they_are_closed(comb, tab, opened):
    line, robot, page = comb
    second = opened(page.url)
    second.wait_for(DRAWN)
    slide(second, "s1", 0.8)
    there = second.wait_for(f"{GOAL}[0] > 40 && {GOAL}[0]")
    tab.call("Page.bringToFront")
    tab.wait_for(f"{GOAL}[0] === {there}")
    wait_until(lambda: line.tables[1][24] == 1)
    for shown in (second, tab):
        shown.call("Page.close")
    wait_until(lambda: page.server.watched == 0)
    time.sleep(1.0)  # and nothing comes of it
    assert line.tables[1][24] == 1
    before = robot.time
    wait_until(lambda: robot.time > before + 0.2)


def test_a_killed_browser_leaves_the_motors_off_where_the_rig_says_so(tmp_path, desk):
    rig = write_comb(tmp_path, 1, extra='[view]\non_close = "limp"')
    with PtyLine((1,)) as line, axbridge.open(rig, backend="real", port=line.port) as robot:
        page = robot.view(port=0, open=False)
        with stepping(robot) as raised, browsing(tmp_path / "browser", *SIZE) as opened:
            opened(page.url).box("#off")
            switch_on(line, page)
            opened.process.kill()
            wait_until(lambda: line.tables[1][24] == 0)
        assert raised == []


def test_a_ghost_and_an_arrow_show_the_difference_between_a_servo_and_its_model(tmp_path, desk, opened):
    with (
        PtyLine((1, 2)) as line,
        axbridge.open(write_comb(tmp_path, 2), backend="twin", port=line.port) as robot,
        robot.view(port=0, open=False) as page,
        stepping(robot) as raised,
    ):
        tab = opened(page.url)
        tab.wait_for(DRAWN)
        switch_on(line, page)
        tab.wait_for("axbridge.body.ghosts[0].moved.every(one => !one)")  # they do the same
        there = int.from_bytes(line.tables[2][36:38], "little")
        line.tables[2][36:38] = (there + 100).to_bytes(2, "little")
        tab.wait_for("axbridge.body.ghosts[0].moved.filter(one => one).length === 1")
        tab.wait_for("document.querySelector('svg text')?.textContent.startsWith('s2 ')")
        assert 20 < float(tab.run("document.querySelector('svg text').textContent").split()[1].rstrip("°")) < 32
        tab.wait_for("document.getElementById('apart').textContent.includes('worst: s2')")
        assert tab.run("document.getElementById('apart').title") == "residual: measured − simulated"
        tab.call("Page.close")
    assert raised == []


def test_eighteen_servos_at_50_steps_a_second_are_shown_while_both_cores_are_busy(opened, desk):
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        with axbridge.open("bioloid", realtime=True) as robot, robot.view(port=0, open=False) as page, stepping(robot):
            tab = opened(page.url)
            tab.call("Emulation.setDeviceMetricsOverride", width=1024, height=768, deviceScaleFactor=1, mobile=False)
            tab.wait_for("window.axbridge?.body?.drawn && axbridge.source.times.length > 3", 60)
            before = robot.time
            wait_until(lambda: robot.time > before + 3.0, 60)
            tab.wait_for(f"axbridge.source.times.at(-1) > {before + 2.0}", 30)
            page.requests.ask(None, lambda: page.actions.torque(list(robot), on=True))
            wait_until(lambda: all(servo.torque_enabled for servo in robot.values()))
            tab.key(" ", "Space", 32)
            wait_until(lambda: robot.stopped, 3)
            assert tab.run("document.querySelectorAll('#servos tbody tr').length") == 18
            fits = "[...document.querySelectorAll('#servos tbody tr')].at(-1).getBoundingClientRect().bottom"
            assert tab.run(fits) <= tab.run("document.getElementById('servos').getBoundingClientRect().bottom")
            tab.call("Page.close")
    finally:
        for process in burning:
            process.kill()
            process.wait()


# ---- recordings


@pytest.fixture(scope="module")
def replay(desk):
    recording = record_swing(desk / "swing.mcap", 150, limp_ms=500)
    assert app.run(["view", "swing.mcap", "--out", "page.html", "--force"]) == app.DONE
    return recording, desk / "page.html"


@pytest.mark.ci
def test_a_link_opens_a_moment_of_the_recording_and_plays_from_there(opened, replay):
    recording, page = replay
    track = recording["shoulder"]
    tab = opened(f"{page.as_uri()}#t=2.1&servo=shoulder")
    tab.wait_for(DRAWN)
    time_ = track.time - recording.start
    sample = int(np.argmin(np.abs(time_ - 2.1)))
    assert tab.run("axbridge.held") == pytest.approx(time_[sample], abs=1e-4)
    shown = tab.run("document.querySelector('#legend output').textContent")
    assert float(shown.split("°")[0]) == pytest.approx(math.degrees(track.position[sample]), abs=0.006)
    box = tab.wait_for("document.getElementById('curves').getBoundingClientRect().toJSON()")
    tab.click("#measure")
    for name, share in (("from", 0.3), ("to", 0.8)):  # drag both cursors
        at = tab.wait_for(f"document.getElementById('{name}').getBoundingClientRect().toJSON()")
        tab.point("mousePressed", at["x"] + 8, at["y"] + 30)
        tab.point("mouseMoved", box["x"] + share * box["width"], at["y"] + 30)
        tab.point("mouseReleased", box["x"] + share * box["width"], at["y"] + 30)
    one, two = (int(np.argmin(np.abs(time_ - tab.run(f"axbridge.cursors.{name}")))) for name in ("from", "to"))
    assert 0.3 * time_[-1] < time_[two] - time_[one] < 0.7 * time_[-1]
    words = tab.run("document.getElementById('between').textContent")
    assert float(words.split()[1]) == pytest.approx(time_[two] - time_[one], abs=1e-3)
    difference = math.degrees(track.position[two] - track.position[one])
    assert float(words.split("Δ ")[-1].rstrip("°")) == pytest.approx(difference, abs=0.012)
    assert tab.hosts == {""}  # it is a file
    assert tab.complaints == []
    drawn = tab.run("axbridge.body.drawn")
    time.sleep(0.7)
    assert tab.run("axbridge.body.drawn") == drawn  # only when something changes
    tab.click_at(box["x"] + 0.9 * box["width"], box["y"] + 60)  # the time that is shown
    assert tab.run("axbridge.held / axbridge.source.times.at(-1)") == pytest.approx(0.9, abs=0.03)
    before = tab.run("axbridge.held")
    tab.click("#play")
    tab.wait_for(f"axbridge.held !== {before}")  # it plays
    assert page.stat().st_size < 200_000
    tab.call("Page.close")
