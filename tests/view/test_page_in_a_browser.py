"""The live page as people see and use it: Chromium without a window, servos on a line, dynamixel-sdk from outside."""

import math
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from dynamixel_sdk import PacketHandler, PortHandler

import axbridge
from axbridge.config.instructions import Instruction
from axbridge.recording.provenance import describe, rig_of
from axbridge.view import web_server
from axbridge.view.replay import Replay
from tests.support.browser import CHROMIUM, browsing
from tests.support.page_client import page_client
from tests.support.pty_line import PtyLine
from tests.support.robot_files import write_comb
from tests.support.warm import serving

pytest.importorskip("viser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium"),
]

OFF = "ALL OFF (space)"
SEEN = "(what => [...document.querySelectorAll(what)].filter(one => one.checkVisibility()))"  # of a CSS selector
SIZE = 860, 460  # px: rendering without a graphics card takes its time
GOAL = "document.querySelectorAll('[role=slider]')[2].ariaValueNow"
BANNER = "[...document.querySelectorAll('div')].map(d => d.textContent).join(' ')"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    with browsing(tmp_path_factory.mktemp("browser"), *SIZE) as opened:
        yield opened


@contextmanager
def stepping(robot):
    """A program that steps the robot; yields what it raised, if it did."""
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
    tab.box("button", OFF)
    tab.settle()
    tab.run("document.querySelector('[data-dock-root] canvas').parentElement.style.height = '40px'")  # quicker to draw
    return tab


@pytest.fixture
def tab(comb, shared_tab):
    """The page with its first tab open, of a robot that nobody has stopped, with its motors off."""
    line, robot, page = comb
    shared_tab.call("Page.bringToFront")
    page.release()
    page.desk.ask(None, lambda: page.actions.torque(list(robot), on=False))
    wait_until(lambda: not robot.stopped and not any(table[24] for table in line.tables.values()))
    shared_tab.click("[role=tab]", "Drive")
    shared_tab.wait_for(f"{BANNER}.includes('steps/s') && !{SEEN}('input[type=checkbox]:checked').length")
    return shared_tab


def wait_until(true, seconds=30.0):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.001)


def heard(read):
    """What dynamixel-sdk reads; again where a busy machine answers too late for it."""
    for _ in range(20):
        value, result, _ = read()
        if result == 0:
            return value
    raise AssertionError(result)


def switch_on(line, page):
    """Switch every motor on from the page; again where a busy machine has lost a packet."""

    def are_on():
        page.desk.ask("test", lambda: page.actions.torque(list(page.robot), on=True))
        time.sleep(0.2)
        return all(servo.torque_enabled for servo in page.robot.values())

    wait_until(are_on)
    wait_until(lambda: all(table[24] for table in line.tables.values()))


def press_on(tab, element, share=0.5):
    """Press an element, a JavaScript expression, at this share of its width."""
    box = tab.wait_for(
        f"(e => e && (e.scrollIntoView({{block: 'nearest'}}), e.getBoundingClientRect().toJSON()))({element})"
    )
    tab.click_at(box["x"] + share * box["width"], box["y"] + box["height"] / 2)


def slide(tab, place, share):
    """Press a slider at this share of its length; 0 speed, 1 torque, then the joints."""
    press_on(tab, f"document.querySelectorAll('.mantine-Slider-trackContainer')[{place}]", share)


@pytest.mark.ci
def test_the_page_asks_no_other_host_moves_the_served_servo_and_says_when_its_program_has_ended(opened, desk):
    with serving("bench_arm") as port:
        command = [sys.executable, "-m", "axbridge", "view", "--rig", "bench_arm", "--backend", "real", "--port", port]
        start = [*command, "--no-open", "--page-port", "0"]
        with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as view:
            try:
                url = view.stdout.readline().split()[1]
                tab = opened(url)
                tab.box("button", OFF)
                tab.wait_for(f"{BANNER}.includes('steps/s')")
                tab.settle()
                limp = tab.picture()
                slide(tab, 2, 0.3)  # shoulder, id 1
                tab.wait_for(f"{SEEN}('input[type=checkbox]')[0].checked")  # its motor is on
                goal = float(tab.run(GOAL))
                tab.wait_for(f"Math.abs({GOAL} - {goal}) < 0.3")
                assert len(set(limp)) > 100  # something is drawn
                assert tab.picture() != limp
            finally:
                view.kill()
        tab.wait_for(f"{BANNER}.includes('axbridge has ended')")
        assert tab.run("getComputedStyle(document.querySelector('.axbridge-banner')).visibility") == "hidden"
        assert tab.hosts == {url.split("/")[2]}
        assert [text for text in tab.complaints if "ERR_CONNECTION_REFUSED" not in text] == []
        line = PortHandler(port)
        line.openPort()
        line.setBaudRate(1_000_000)
        counts = heard(lambda: PacketHandler(1.0).read2ByteTxRx(line, 1, 30))
        torque = heard(lambda: PacketHandler(1.0).read1ByteTxRx(line, 1, 24))
        line.closePort()
        assert abs((counts - 512) * 300 / 1023 - goal) < 0.5
        assert torque == 0


def test_the_red_button_and_the_space_bar_switch_every_motor_off_within_50_ms(comb, tab):
    line, robot, page = comb

    def seconds(press):
        switch_on(line, page)
        tab.wait_for(f"{SEEN}('input[type=checkbox]')[0].checked")
        line.heard.clear()
        press()
        wait_until(lambda: not any(table[24] for table in line.tables.values()))
        off = [when for _, code, params, when in line.heard if code == Instruction.WRITE and params == bytes((24, 0))]
        assert robot.stopped
        tab.click("button", "Release")
        wait_until(lambda: not robot.stopped)
        return off[0] - page.desk.cleared_at

    for press in (lambda: tab.click("button", OFF), lambda: tab.key(" ", "Space", 32)):
        assert any(seconds(press) < 0.05 for _ in range(5))  # the others: this computer was busy


def test_a_slider_moves_its_servo_within_150_ms(comb, tab):
    line, _, page = comb

    def seconds(share):
        before = bytes(line.tables[1][30:32])
        begun = time.monotonic()
        slide(tab, 2, share)
        wait_until(lambda: bytes(line.tables[1][30:32]) != before)
        return time.monotonic() - begun

    switch_on(line, page)
    assert any(seconds(0.3 + 0.04 * turn) < 0.15 for turn in range(8))  # the others: this computer was busy


# The tabs that are open; in JavaScript.
OPEN = f"{SEEN}('[role=tab][aria-selected=true]').map(one => one.textContent)"

# What has the focus when somebody presses the key, and the tab of the panel that it is on; in JavaScript.
ELEMENTS = {
    "torque check box": ("Drive", f"{SEEN}('input[type=checkbox]')[0]"),
    "number field": ("Drive", f"{SEEN}('input.mantine-NumberInput-input')[3]"),
    "slider": ("Drive", f"{SEEN}('[role=slider]')[2]"),
    "button": ("Drive", f"{SEEN}('button').find(one => one.textContent === 'on')"),
    "tab": ("Drive", f"{SEEN}('[role=tab]').find(one => one.textContent === 'Poses')"),
    "dropdown": ("Poses", f"{SEEN}('input.mantine-Select-input')[0]"),
    "text": ("Poses", f"{SEEN}('input.mantine-TextInput-input')[0]"),
    "nothing": ("Drive", "document.activeElement"),
}


@pytest.mark.parametrize(
    "element",
    [
        one if one in {"number field", "slider", "nothing"} else pytest.param(one, marks=pytest.mark.ci)
        for one in ELEMENTS
    ],
)
def test_space_and_escape_switch_every_motor_off_and_do_nothing_else_whatever_has_the_focus(comb, tab, element):
    line, robot, page = comb
    place, find = ELEMENTS[element]
    state = f"JSON.stringify({SEEN}('input[type=text]').map(one => one.value))"
    for key in ((" ", "Space", 32), ("Escape", "Escape", 27)):
        tab.click("[role=tab]", place)
        switch_on(line, page)
        tab.wait_for(f"{BANNER}.includes('steps/s')")
        time.sleep(0.15)  # the fields have what the robot has
        tab.run(f"HTMLElement.prototype.focus.call({find})")
        opened = tab.run(OPEN)
        before = tab.run(state)
        tab.key(*key)
        wait_until(lambda: robot.stopped and not any(table[24] for table in line.tables.values()))
        tab.wait_for(f"{BANNER}.includes('all motors are off')")
        assert tab.run(state) == before
        assert tab.run(OPEN) == opened
        tab.click("button", "Release")
        wait_until(lambda: not robot.stopped)
        time.sleep(0.1)
        assert not any(table[24] for table in line.tables.values())  # and nothing that was pressed comes after it


@pytest.mark.ci
def test_a_number_is_typed_in_peace_while_the_joint_moves_and_sent_on_enter_or_on_leaving_the_field(comb, tab):
    _, robot, page = comb
    servo = robot["s1"]
    field = "document.querySelectorAll('input.mantine-NumberInput-input:not([data-axbridge])')[3]"  # of s1
    typed = "document.querySelector('[data-axbridge]')"
    shown = f"Number({field}.value)"
    page.desk.ask("test", lambda: page.actions.move("s1", 0.0))
    tab.wait_for(f"{shown} === 0")
    for text, leave, wanted, told in (
        ("-40", lambda: tab.key("Enter", "Enter", 13), -40, ""),
        ("12,5", lambda: tab.key("Tab", "Tab", 9), 12.5, ""),
        ("200", lambda: tab.key("Enter", "Enter", 13), None, "200° is not within"),
        ("4e1", lambda: tab.key("Enter", "Enter", 13), None, "is no number"),
    ):
        page.desk.ask("way", lambda: page.actions.way({"s1": 1.4}, 8.0))
        before = tab.wait_for(f"{shown} < 90 && {shown}")  # it shows no refused number
        tab.wait_for(f"{shown} > {before} + 1")  # it moves, and the page shows it
        wait_until(lambda: press_on(tab, field) or tab.run(f"{typed} !== null"))
        targets = []
        for letter in text:
            moved = tab.run(shown)
            tab.call("Input.insertText", text=letter)
            tab.wait_for(f"{shown} > {moved}")  # what is behind the field goes on
            targets.append(servo.target_position)
        assert tab.run(f"{typed}.value") == text
        assert targets == sorted(targets)  # on its way, and to none of the digits
        leave()
        if wanted is None:
            tab.wait_for(f"{BANNER}.includes('{told}')")
            before = servo.target_position
            wait_until(lambda before=before: servo.target_position > before)  # it goes on as it was
        else:
            wait_until(lambda wanted=wanted: abs(servo.target_position - math.radians(wanted)) < 1e-3)
            tab.wait_for(f"{shown} === {wanted}")
            assert tab.run(f"{typed} === null")  # it is left, and stays so


@pytest.mark.ci
def test_a_refusal_is_seen_whole_and_moves_nothing_below_it(comb, tab):
    page = comb[2]
    page.tell("")
    below = "document.querySelector('[role=tab]').getBoundingClientRect().y"
    before = tab.run(below)
    doubt = page.actions.doubt("s1", "temperature_limit", 80)
    page.tell(f"{doubt}; nothing is written yet: press the button below Write if you mean it")
    said = "document.querySelector('.axbridge-said')"
    tab.wait_for(f"{said}.textContent.endsWith('if you mean it')")
    assert tab.run(f"{said}.scrollHeight <= {said}.clientHeight")
    assert tab.run(below) == before


@pytest.mark.ci
def test_the_curves_are_drawn_although_the_window_begins_without_a_goal(comb, tab, opened):
    page = comb[2]
    with page_client(page) as client:
        client.set("time", "10 min")  # from the start: limp, without a goal
    wide = opened("about:blank")
    wide.call("Emulation.setDeviceMetricsOverride", width=1010, height=300, deviceScaleFactor=1, mobile=False)
    wide.call("Page.navigate", url=page.url)
    charts = "Object.values((window.__viserTestpoints || {}).uplots || {})"
    wide.wait_for(f"{charts}.length >= 5", 40)
    wide.wait_for(f"{charts}.every(one => Number.isFinite(one.chart.scales.y.min + one.chart.scales.y.max))")
    page.desk.ask("test", lambda: page.actions.move("s1", 0.5))
    wide.wait_for(f"{charts}[0].chart.data[1].at(-1) > 28")  # the goal
    wide.wait_for(f"{charts}.every(one => Number.isFinite(one.chart.scales.y.min + one.chart.scales.y.max))")
    wide.call("Page.close")


@pytest.mark.ci
def test_the_curves_of_a_replay_are_drawn_from_its_first_moment_on(opened, desk):
    with (
        axbridge.open("bench_arm") as robot,
        axbridge.Recorder(desk / "limp.mcap", describe(robot.rig, backend="sim")) as recorder,
        axbridge.RobotRecorder(robot, recorder),
    ):
        robot.step(1000)  # limp: it has no goal
        robot["shoulder"].set_position(0.4)
        robot.step(2000)
    recording = axbridge.open_recording(desk / "limp.mcap")
    server, url = web_server.start(0, "127.0.0.1", "replay")
    try:
        replay = Replay(server, rig_of(recording), recording, None)
        replay.playing = False
        replay.show()
        tab = opened("about:blank")
        tab.call("Emulation.setDeviceMetricsOverride", width=1010, height=300, deviceScaleFactor=1, mobile=False)
        tab.call("Page.navigate", url=url)
        charts = "Object.values((window.__viserTestpoints || {}).uplots || {})"
        tab.wait_for(f"{charts}.length >= 3", 40)
        tab.wait_for(f"{charts}.every(one => Number.isFinite(one.chart.scales.y.min + one.chart.scales.y.max))")
        assert tab.run(f"{charts}.every(one => one.chart.scales.x.min === -5 && one.chart.scales.x.max === 5)")
        tab.call("Page.close")
    finally:
        web_server.stop(server)


@pytest.mark.ci
def test_at_twice_the_size_the_robot_keeps_its_room_and_the_systems_dark_mode_is_taken(comb, tab, opened):
    zoomed = opened("about:blank")
    zoomed.call("Emulation.setDeviceMetricsOverride", width=700, height=450, deviceScaleFactor=2, mobile=False)
    zoomed.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    zoomed.call("Page.navigate", url=comb[2].url)
    sides = "[...document.querySelectorAll('[data-dock-region]')].map(one => one.getBoundingClientRect().width)"
    zoomed.wait_for(f"(all => all.length === 2 && 700 - all[0] - all[1] > 0.45 * 700)({sides})")
    assert zoomed.run("document.documentElement.dataset.mantineColorScheme") == "dark"
    zoomed.call("Page.close")


def test_a_browser_without_webgl_gets_the_plain_page_with_the_button_and_the_space_bar(comb, tmp_path):
    line, robot, page = comb
    with browsing(tmp_path, *SIZE, graphics=False) as opened:
        tab = opened(page.url)
        for press in (lambda: tab.key(" ", "Space", 32), lambda: tab.click("button", OFF)):
            switch_on(line, page)
            tab.wait_for("location.pathname === '/stop' && document.readyState === 'complete'")
            press()
            wait_until(lambda: not any(table[24] for table in line.tables.values()))
            tab.wait_for("document.querySelector('[role=status]')?.textContent.startsWith('All motors are off')")
            page.release()
            wait_until(lambda: not robot.stopped)


@pytest.mark.filterwarnings("ignore:.*the motors keep their last goals:axbridge.errors.ControlWarning")
def test_a_lost_port_shows_red_and_comes_back(comb, tab):
    line = comb[0]
    line.unplug()
    tab.wait_for(f"{BANNER}.includes('port lost: looking for it')")
    line.replug()
    tab.wait_for(f"!{BANNER}.includes('port lost: looking for it')")


@pytest.mark.ci
def test_two_pages_see_the_same_and_the_robot_goes_on_when_they_are_closed(comb, tab, opened):
    line, robot, page = comb
    second = opened(page.url)
    second.box("button", OFF)
    second.settle()
    slide(second, 2, 0.8)
    there = second.wait_for(f"{GOAL} > 40 && {GOAL}")
    tab.call("Page.bringToFront")
    tab.wait_for(f"{GOAL} === '{there}'")
    wait_until(lambda: line.tables[1][24] == 1)
    for one in (second, tab):
        one.call("Page.close")
    wait_until(lambda: page.server.get_clients() == {})
    time.sleep(1.0)  # and nothing comes of it
    assert line.tables[1][24] == 1
    before = robot.time
    wait_until(lambda: robot.time > before + 0.2)


def test_a_killed_browser_leaves_the_motors_off_where_the_rig_says_so(tmp_path, desk):
    rig = write_comb(tmp_path, 1, extra='[view]\non_close = "limp"')
    with PtyLine((1,)) as line, axbridge.open(rig, backend="real", port=line.port) as robot:
        page = robot.view(port=0, open=False)
        with stepping(robot) as raised, browsing(tmp_path / "browser", *SIZE) as opened:
            opened(page.url).box("button", OFF)
            switch_on(line, page)
            opened.process.kill()
            wait_until(lambda: line.tables[1][24] == 0)
        assert raised == []
