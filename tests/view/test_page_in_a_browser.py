"""The live page as people see and use it: Chromium without a window, servos on a line, dynamixel-sdk from outside."""

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
from axbridge.packets import Instruction
from axbridge.serve.background import serving
from tests.support.browser import CHROMIUM, browsing
from tests.support.pty_line import PtyLine
from tests.support.robot_files import write_comb

pytest.importorskip("viser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium"),
]

OFF = "ALL OFF (space)"
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
def tab(comb, opened):
    tab = opened(comb[2].url)
    tab.box("button", OFF)
    tab.settle()
    return tab


def wait_until(true, seconds=5.0):
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
        return all(table[24] for table in line.tables.values())

    wait_until(are_on, 10.0)


def slide(tab, place, share):
    """Press a slider at this share of its length; 0 speed, 1 torque, then the joints."""
    find = f"document.querySelectorAll('.mantine-Slider-trackContainer')[{place}]"
    box = tab.wait_for(
        f"(e => e && (e.scrollIntoView({{block: 'nearest'}}), e.getBoundingClientRect().toJSON()))({find})"
    )
    tab.click_at(box["x"] + share * box["width"], box["y"] + box["height"] / 2)


def test_the_page_asks_no_other_host_and_a_slider_moves_the_served_servo_within_150_ms(opened, desk):
    with serving("bioloid") as port:
        command = [sys.executable, "-m", "axbridge", "view", "--rig", "bioloid", "--backend", "real", "--port", port]
        start = [*command, "--no-open", "--page-port", "0"]
        with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as view:
            url = view.stdout.readline().split()[1]
            tab = opened(url)
            tab.box("button", OFF)
            tab.wait_for(f"{BANNER}.includes('steps/s')")
            tab.wait_for("document.querySelectorAll('.mantine-Slider-trackContainer').length > 4")
            tab.settle()
            limp = tab.picture()
            slide(tab, 2, 0.9)  # right_shoulder_swing, id 1
            time.sleep(1.5)
            raised = tab.picture()
            assert len(set(limp)) > 100  # something is drawn
            assert raised != limp
            slide(tab, 2, 0.3)
            time.sleep(0.15)
            view.kill()
        goal = float(tab.run(GOAL))
        time.sleep(1.0)  # the guard switches the motors off and lets the port go
        assert tab.hosts == {url.split("/")[2]}
        assert [text for text in tab.complaints if "WebSocket" not in text] == []
        line = PortHandler(port)
        line.openPort()
        line.setBaudRate(1_000_000)
        counts = heard(lambda: PacketHandler(1.0).read2ByteTxRx(line, 1, 30))
        torque = heard(lambda: PacketHandler(1.0).read1ByteTxRx(line, 1, 24))
        line.closePort()
        assert abs((512 - counts) * 300 / 1023 - goal) < 0.5  # it turns the other way round on the right
        assert torque == 0


def test_the_red_button_and_the_space_bar_switch_every_motor_off_within_50_ms(comb, tab):
    line, robot, page = comb
    for press in (lambda: tab.click("button", OFF), lambda: tab.key(" ", "Space", 32)):
        switch_on(line, page)
        tab.wait_for("document.querySelectorAll('input[type=checkbox]:checked').length >= 3")
        line.heard.clear()
        press()
        wait_until(lambda: not any(table[24] for table in line.tables.values()))
        off = [when for _, code, params, when in line.heard if code == Instruction.WRITE and params == bytes((24, 0))]
        assert off[0] - page.desk.cleared_at < 0.05
        assert robot.stopped
        tab.click("button", "Release")
        wait_until(lambda: not robot.stopped)


def test_a_lost_port_shows_red_and_comes_back(comb, tab):
    line = comb[0]
    line.unplug()
    tab.wait_for(f"{BANNER}.includes('port lost: looking for it')")
    line.replug()
    tab.wait_for(f"!{BANNER}.includes('port lost: looking for it')")


def test_two_pages_see_the_same_and_the_robot_goes_on_when_they_are_closed(comb, tab, opened):
    line, robot, page = comb
    second = opened(page.url)
    second.box("button", OFF)
    slide(second, 2, 0.8)
    there = second.run(GOAL)
    assert float(there) > 40
    tab.call("Page.bringToFront")
    tab.wait_for(f"{GOAL} === '{there}'")
    wait_until(lambda: line.tables[1][24] == 1)
    for one in (second, tab):
        one.call("Page.close")
    time.sleep(2.5)
    assert page.server.get_clients() == {}
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
