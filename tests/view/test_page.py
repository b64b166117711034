"""The page without a browser: requests wait for the step, the rig's limits hold, and access is controlled."""

import json
import math
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.cookiejar import CookieJar
from inspect import signature
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import axbridge
from axbridge import AxBridgeError, ControlWarning, RobotStopped, UnsupportedOperation, UsageError
from axbridge.errors import ErrorFlag
from axbridge.motion.files import load_move
from axbridge.motion.moves import Key, Move, Page
from axbridge.robot.simulation import hold_up
from axbridge.view.actions import Actions, PoseFile, Requests, mirrored
from axbridge.view.page import _KINDS, START, Events
from axbridge.view.web_server import AccessControl
from tests.support.page_client import page_client
from tests.support.pty_line import PtyLine
from tests.support.robot_files import write_comb
from tests.support.waiting import until
from tests.support.warm import Warm


@pytest.fixture(autouse=True)
def _desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def arm():
    with axbridge.open("bench_arm") as robot:
        yield robot


@pytest.fixture
def real(tmp_path):
    with (
        PtyLine((1,)) as line,
        axbridge.open(write_comb(tmp_path, 1), backend="real", port=line.port) as robot,
        robot.view(port=0, open=False) as page,
    ):
        yield line, robot, page


@pytest.fixture
def page(arm):
    with arm.view(port=0, open=False) as page:
        yield page


@pytest.fixture
def client(page):
    with page_client(page) as client:
        yield client


def step_until(robot, true, seconds=20):
    """Step the robot until this is true: pages and their clients live by the wall clock."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        robot.step()


def finish(robot, job):
    for count, _ in enumerate(job):
        robot.step()
        assert count < 500
    robot.step()


def test_a_closed_robot_has_no_page(arm, capsys):
    arm.close()
    with pytest.raises(UsageError, match="is closed"):
        arm.view(port=0, open=False)
    assert "page:" not in capsys.readouterr().err


def test_a_newer_request_on_a_topic_replaces_the_waiting_or_running_one():
    done = []
    desk = Requests(done.append)

    def job():
        while True:
            done.append("step")
            yield

    desk.ask("way", job)
    desk.ask("slider", lambda: done.append(1))
    desk.ask("slider", lambda: done.append(2))
    desk.serve()
    desk.serve()
    assert done == [2, "step", "step"]
    desk.ask("way", lambda: done.append("end"))
    desk.serve()
    desk.serve()
    assert done == [2, "step", "step", "end"]


def test_torque_off_reaches_the_other_servos_when_one_does_not_answer(tmp_path):
    with PtyLine((1, 2, 3)) as line, axbridge.open(write_comb(tmp_path, 3), backend="real", port=line.port) as robot:
        for servo in robot.values():
            servo.torque_on()
        actions, reports = Actions(robot), []
        desk = Requests(reports.append)
        line.deaf = {1}
        desk.ask(None, lambda: actions.torque(list(robot), on=False))
        desk.ask(None, lambda: actions.torque(["s2"], on=True))
        desk.serve()
        assert [line.tables[id_][24] for id_ in (1, 2, 3)] == [1, 1, 0]
        assert "servo 1 did not answer" in reports[0]
        line.deaf = set()


def test_a_motion_to_a_pose_keeps_the_limits_and_a_slider_ends_it(arm):
    actions, servo = Actions(arm), arm["shoulder"]
    actions.limit_speed(0.1)
    finish(arm, actions.move_to({"shoulder": 0.6}, 0.1))
    assert arm.time > 1.5 * 0.6 / (0.1 * servo.max_velocity)  # as long as that asks for
    actions.limit_speed(1.0)
    finish(arm, actions.move_to({"shoulder": 9.0, "stranger": 1.0}, 0.5))
    assert servo.target_position == pytest.approx(servo.max_position)
    job = actions.move_to({"shoulder": 0.0}, 1.0)
    for _ in range(5):
        next(job)
        arm.step()
    actions.move("shoulder", 0.3)
    finish(arm, job)
    assert servo.target_position == pytest.approx(0.3)


def test_a_wheel_is_not_turned_by_the_limit_of_speed(arm):
    servo = arm["shoulder"]
    with pytest.warns(ControlWarning, match="wheel mode"):
        servo.set_position(math.inf)
    servo.set_velocity(0.0)
    Actions(arm).limit_speed(0.5)
    assert servo.velocity_limit == 0.0


def test_a_stop_precedes_its_release_and_requests_without_a_topic_are_all_done(tmp_path, monkeypatch):
    done = []
    with axbridge.open("pan_tilt") as robot, robot.view(port=0, open=False) as page:
        monkeypatch.setattr(type(robot["pan"]), "recover", lambda servo: done.append(servo.name))
        monkeypatch.setattr(type(robot), "stop", lambda _robot: done.append("off") or {})
        monkeypatch.setattr(type(robot), "resume", lambda _robot: done.append("released"))
        page.record(tmp_path / "dropped.mcap")
        page.all_off()
        for ask in ({"ask": "release"}, *({"ask": "recover", "servo": name} for name in robot)):
            page.commands.receive(json.dumps(ask))
        for name in ("a", "b"):
            page.record(tmp_path / f"{name}.mcap")
        robot.step()
        assert done == ["off", "released", "pan", "tilt"]
        until(lambda: axbridge.open_recording(tmp_path / "a.mcap").complete)
        assert (page.recording, (tmp_path / "dropped.mcap").exists()) == (tmp_path / "b.mcap", False)


def test_requests_with_unknown_names_stop_neither_page_nor_robot(arm, page, client):
    client.ask("recover", servo="nobody")
    client.ask("way", pose="none", seconds=1, mirror=False)
    client.ask("play", file="../../elsewhere.json", pace=1)
    client.ask("limit_speed", share=math.nan)
    step_until(arm, lambda: "no servo 'nobody'" in (said := str(page.events.latest())) and "there is no pose" in said)
    step_until(arm, lambda: "there is no move '../../elsewhere.json' in the folder" in str(page.events.latest()))
    page.report("still there")
    step_until(arm, lambda: "still there" in client.text)


def test_impossible_values_are_refused_and_the_robot_continues(arm, page, tmp_path):
    servo, numbers = arm["shoulder"], (10**400, -(10**400), 1e300, math.inf, -math.inf, math.nan)
    page.commands.poses.poses = {"odd": {"shoulder": math.nan}}
    before = servo.velocity_limit, servo.available_torque, False
    for message in (
        *({"ask": "record", "name": n} for n in ("a\0b", "x" * 256, "\ud800", "..", "\x1b[31mred", "C:\\x", ".hid")),
        *({"ask": "limit_speed", "share": share} for share in (*numbers, -0.01, 1.01)),
        *({"ask": "limit_torque", "servos": ["shoulder"], "share": share} for share in (*numbers, -0.01, 1.01)),
        *(
            {"ask": "move", "servo": "shoulder", "to": to}
            for to in (*numbers, servo.max_position + 0.01, servo.min_position - 0.01)
        ),
        *({"ask": "way", "pose": START, "seconds": seconds, "mirror": False} for seconds in numbers),
        {"ask": "way", "pose": "odd", "seconds": 1, "mirror": False},
    ):
        with suppress(ValueError):
            page.commands.receive(json.dumps(message))
        arm.step()
        assert (servo.velocity_limit, servo.available_torque, servo.torque_enabled) == before, message
        assert (list(tmp_path.iterdir()), page.recording) == ([], None), message
    said = str(page.events.latest())
    for words in ("-1 % is no limit", "101 % is no limit", "shoulder stays where it is", "has no number for shoulder"):
        assert words in said
    page.commands.receive(json.dumps({"ask": "move", "servo": "shoulder", "to": servo.max_position}))
    arm.step()
    assert servo.target_position == servo.max_position


_TEXTS = st.text(max_size=300) | st.sampled_from(["shoulder", "elbow", "\ud800", "a\0", "run.mcap"])
_NUMBERS = st.integers() | st.floats() | st.sampled_from([10**400, -(10**400)])
_VALUES = st.recursive(
    _NUMBERS | _TEXTS | st.booleans() | st.none(),
    lambda part: st.lists(part) | st.dictionaries(_TEXTS, part),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_message_of_a_page_ends_the_program_that_steps_the_robot(arm, page, data):
    by_kind = {str: _TEXTS, bool: st.booleans(), list: st.lists(_TEXTS), (int, float): _NUMBERS}
    commands = page.commands
    what = data.draw(st.sampled_from([*commands._known, "nothing"]))
    names = signature(commands._known[what]).parameters if what in commands._known else ["to"]
    message = {"ask": what, **{name: data.draw(by_kind[_KINDS[name]] | _VALUES) for name in names}}
    with suppress(ValueError):
        page.commands.receive(json.dumps(message))
    arm.step()
    assert not any("the page failed" in line.text for line in page.events.latest())


def test_an_unexpected_error_is_shown_on_the_page_and_does_not_end_the_step(arm, page, monkeypatch, caplog):
    def fail():
        raise OverflowError("beyond all bounds")

    page.requests.ask(None, fail)
    arm.step()
    monkeypatch.setattr(page, "_poll_line", lambda _now: 1 / 0)
    page._line_due = page._due = 0.0
    arm.step()
    said = str([line.text for line in page.events.latest()])
    assert "OverflowError: beyond all bounds" in said
    assert "ZeroDivisionError" in said
    assert len(caplog.records) == 2


@pytest.mark.parametrize("host", ["[::1", "127.0.0.1:abc", "127.0.0.1:99999999"])
@pytest.mark.parametrize("listening", ["127.0.0.1", "0.0.0.0"])
def test_an_invalid_host_header_is_refused_without_a_server_error(arm, host, listening):
    with arm.view(port=0, host=listening, open=False) as page:
        url = page.url.replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(HTTPError) as caught:
            urlopen(Request(url, headers={"Host": host}), timeout=5)
        caught.value.close()
        assert caught.value.code == 400


def test_the_token_redirects_only_to_own_pages():
    door = AccessControl("0.0.0.0")
    for path in ("/", "/stop", "/\\evil.com", "//evil.com", "/%5Cevil.com"):
        location = door.refuses(f"{path}?token={door.token}", "here:8080", None, "")[2]["Location"]
        assert location == ("/stop" if path == "/stop" else "/")


@contextmanager
def running(page):
    """The page runs the loop, as `axbridge view` has it."""
    loop = threading.Thread(target=page.run)
    loop.start()
    try:
        yield
    finally:
        page.close()
        loop.join()


@pytest.mark.parametrize("own", [1.0, 0.1])
def test_the_page_starts_with_a_low_or_the_programs_speed_limit(arm, page, client, own):
    def share():
        return arm["shoulder"].goals.speed / arm["shoulder"].max_velocity

    arm["shoulder"].set_velocity(own * arm["shoulder"].max_velocity)
    arm["shoulder"].set_available_torque(0.4 * arm["shoulder"].max_torque)
    step_until(arm, lambda: client.receive() or client.message.get("speed") == pytest.approx(own))
    assert client.message["torques"] == [pytest.approx(0.4)]
    with running(page):
        client.wait_for(lambda: client.message["speed"] == pytest.approx(min(own, 0.3)) == share())
        client.ask("limit_speed", share=0.2)
        client.wait_for(lambda: client.message["speed"] == pytest.approx(0.2) == share())


def test_the_speed_limit_of_the_page_is_restored_after_all_off_ends_a_move(arm, page, tmp_path):
    Move(pages={"1": Page(keys=(Key(positions={"shoulder": 0.3}, time=60.0),))}).save(tmp_path / "slow.json")
    with running(page):
        until(lambda: page.owned)
        page.play("slow.json", load_move(tmp_path / "slow.json", arm.rig)[0], 1.0)
        until(lambda: page.playing)
        page.all_off()
        until(lambda: not page.playing)
        with pytest.raises(RobotStopped, match="nothing moves\npress Release first"):
            page.play("slow.json", load_move(tmp_path / "slow.json", arm.rig)[0], 1.0)
        page.release()
        until(lambda: not arm.stopped)
        assert arm["shoulder"].goals.speed == pytest.approx(0.3 * arm["shoulder"].max_velocity)


def test_the_page_shows_that_all_motors_are_off_until_one_is_on_again(arm, page, client):
    def shown():
        client.receive()
        return client.message.get("state", ""), client.message.get("trouble", "")

    for _ in range(3):
        with ThreadPoolExecutor() as others:
            others.submit(page.all_off)
            step_until(arm, lambda: arm.stopped and shown() == ("all motors are off", "all motors are off"))
        page.release()
        step_until(arm, lambda: not arm.stopped and shown() == ("all motors are off", ""))
    arm["shoulder"].torque_on()
    step_until(arm, lambda: shown() == ("1 of 1 motors are on", ""))


def test_all_off_works_without_steps_and_is_repeated_for_a_servo_that_did_not_answer(real):
    line, robot, page = real
    robot["s1"].torque_on()
    page.all_off()
    assert line.tables[1][24] == 0
    for command in (lambda: robot["s1"].set_position(0.0), robot["s1"].torque_on):
        with pytest.raises(RobotStopped, match="stays off"):
            command()
    page.release()
    robot.step()
    robot["s1"].torque_on()
    line.deaf = {1}
    page.all_off()
    assert page.state == "s1 did not confirm: cut the servo supply"
    line.deaf = set()
    step_until(robot, lambda: line.tables[1][24] == 0)


def refused(request):
    with pytest.raises(HTTPError) as caught, urlopen(request, timeout=5):
        pass
    caught.value.close()
    return caught.value.code == 403


def test_the_page_is_served_to_this_machine_and_to_no_other_page_of_its_browser(page):
    for url in (page.url, page.stop_url):
        with urlopen(url, timeout=5) as answer:
            assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"  # nor can one lay itself over this one
    assert "<title>bench_arm – axbridge</title>" in urlopen(page.url, timeout=5).read().decode()
    assert refused(Request(page.url, headers={"Host": "robot.example"}))
    socket = page.url.replace("http", "ws")
    with pytest.raises(InvalidStatus, match="403"), connect(socket, origin="http://robot.example", proxy=None):
        pass
    with connect(socket, origin=page.url.rstrip("/"), proxy=None):
        pass


def test_a_page_for_other_machines_needs_the_token(arm):
    with arm.view(port=0, host="0.0.0.0", open=False) as page:
        there, _, token = page.url.replace("0.0.0.0", "127.0.0.1").partition("?token=")
        for url in (there, f"{there}stop", f"{there}stop/now", f"{there}alive", f"{there}?token=guess"):
            with pytest.raises(HTTPError, match="401"):
                urlopen(url, timeout=5)
        with pytest.raises(InvalidStatus, match="401"), connect(f"{there.replace('http', 'ws')}live", proxy=None):
            pass
        jar = CookieJar()
        assert b"<html" in build_opener(HTTPCookieProcessor(jar)).open(f"{there}?token={token}", timeout=5).read()
        cookie = "; ".join(f"{item.name}={item.value}" for item in jar)
        socket, known = f"{there.replace('http', 'ws')}live", {"Cookie": f"other=1; {cookie}"}
        with pytest.raises(InvalidStatus, match="403"):
            connect(socket, proxy=None, additional_headers=known, origin="http://other:8080")
        with connect(socket, proxy=None, additional_headers=known) as line:
            line.send(json.dumps({"ask": "torque", "servos": ["shoulder"], "on": True}))
            step_until(arm, lambda: arm["shoulder"].torque_enabled)


def test_an_address_that_cannot_be_had_and_a_missing_package_are_reported(page, arm, monkeypatch):
    taken = urlsplit(page.url).port
    for address, why in (
        ({"port": taken}, f"port {taken} of 127.0.0.1 is taken"),
        ({"port": 99999}, "port 99999 of 127.0.0.1 is taken, or none of yours"),
        ({"host": "192.0.2.1"}, "192.0.2.1 is no address of this computer"),
    ):
        with pytest.raises(UsageError, match=why):
            arm.view(**address, open=False)
    monkeypatch.setitem(__import__("sys").modules, "websockets", None)
    with pytest.raises(UnsupportedOperation, match=r'python -m pip install "axbridge\[view\]"'):
        arm.view(open=False)


def test_the_plain_page_stops_the_robot_without_a_script_and_for_no_other_page(page, arm):
    arm["shoulder"].set_position(0.2)
    arm.step()
    assert page.stop_url == f"{page.url}stop"
    assert "1 of 1 motors are on" in urlopen(page.stop_url, timeout=5).read().decode()
    for header in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Purpose": "prefetch"}, {"Origin": "http://robot.example"}):
        assert refused(Request(f"{page.stop_url}/now", headers=header))
    assert not arm.stopped
    with ThreadPoolExecutor() as others:
        answer = others.submit(lambda: urlopen(f"{page.stop_url}/now?", timeout=5).read().decode())
        step_until(arm, lambda: arm.stopped)
        assert "all motors are off" in answer.result()
    assert arm["shoulder"].read("torque_enable") == 0


def test_invalid_messages_are_counted_on_the_page_and_not_printed(page, arm, client, caplog, capfd):
    address = urlsplit(page.url)
    host = f"Host: {address.netloc}\r\n"
    for said in (
        "",
        "\r\n\r\n",
        "\x16\x03\x01\x02",
        "G" * 20_000,
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: [\r\n\r\n",
        f"POST / HTTP/1.1\r\n{host}\r\n",
        f"GET / HTTP/1.1\r\n{host}no colon\r\n\r\n",
        f"GET / HTTP/1.1\r\n{host}Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 99\r\n\r\n",
    ):
        with socket.create_connection((address.hostname, address.port), timeout=5) as line:
            line.sendall(said.encode())
            line.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                line.recv(1000)
    move = {"ask": "move", "servo": "shoulder", "to": 0.1}
    for said in (
        "text", "", "[]", "3", "null", "{}", b"\xff", '{"ask": 3}', '{"ask": "nothing"}', '{"ask": "move"}', '{"ask": []}',
        *map(json.dumps, (
            {**move, "to": None}, {**move, "to": "0.1"}, {**move, "to": True}, {**move, "servo": []}, {**move, "more": 1},
            {"ask": "torque", "servos": "shoulder", "on": True}, {"ask": "torque", "servos": [1], "on": True},
            {"ask": "torque", "servos": ["shoulder"], "on": 1}, {"ask": "record"},
        )),
        "[" * 60_000,
    ):  # fmt: skip
        client.send(said)
    with connect(page.url.replace("http", "ws"), proxy=None) as line, suppress(ConnectionClosed):
        line.send("x" * 2_000_000)  # more than a request may have
        line.recv_streaming()
        while True:
            line.recv(timeout=5)
    counted = lambda: sum(line.times for line in page.events.latest() if "invalid message" in line.text)  # noqa: E731
    step_until(arm, lambda: counted() >= 28)
    client.ask(**{"what" if name == "ask" else name: value for name, value in move.items()})
    step_until(arm, lambda: arm["shoulder"].torque_enabled)  # it works as before
    assert [record.getMessage() for record in caplog.records] == []
    assert capfd.readouterr() == ("", "")


def test_the_page_closes_with_the_robot_and_the_robot_continues_without_the_page(page, arm):
    with connect(page.url.replace("http", "ws"), proxy=None) as line:
        step_until(arm, lambda: page.server.watched == 1)
        line.socket.shutdown(socket.SHUT_RDWR)  # a browser that is killed has sent nothing that makes no sense
        step_until(arm, lambda: page.server.watched == 0)
    page.close()
    assert (arm.step(), page.events.latest()) == (0, [])
    with pytest.raises(OSError, match="refused"):
        urlopen(page.url, timeout=5)


def test_buttons_save_the_present_pose_return_to_it_and_record(arm, page, client, tmp_path):
    servo = arm["shoulder"]
    servo.set_position(0.5)
    step_until(arm, lambda: page.picture and page.picture.states["shoulder"].position > 0.4)  # whose pose it is
    client.ask("save", name="up")
    step_until(arm, lambda: "saved up in" in client.text and "up" in client.message["poses"])
    client.ask("record", name="../way.mcap")  # in the folder where one started, and nowhere else
    step_until(arm, lambda: page.recording is not None)
    servo.set_position(0.0)
    step_until(arm, lambda: abs(servo.position) < 0.02)
    client.ask("way", pose="up", seconds=1.0, mirror=False)
    step_until(arm, lambda: servo.position > 0.4)
    client.ask("record_end")
    step_until(arm, lambda: page.recording is None)
    recording = axbridge.open_recording("way.mcap")
    assert recording.complete
    page.record(tmp_path / "way.mcap")
    arm.step()
    assert page.recording == tmp_path / "way-2.mcap"  # nothing is lost, and the name is made
    track = recording.tracks["shoulder"]
    assert track.position.min() < 0.05
    assert track.position[-1] == pytest.approx(0.5, abs=0.1)


def test_poses_are_kept_in_a_file_and_mirrored(tmp_path):
    file = PoseFile(tmp_path / "robot.poses.json")
    file.save("wave", {"left_elbow": 0.5, "right_elbow": float("nan")})
    assert PoseFile(file.path).poses == {"wave": {"left_elbow": 0.5}}
    assert mirrored({"left_elbow": 0.5}, {"left_elbow": ("right_elbow", -1.0)}) == {"right_elbow": -0.5}
    with pytest.raises(AxBridgeError):
        mirrored({"head": 0.5}, {})
    file.path.write_text(json.dumps([1]))
    with pytest.raises(UsageError, match=r"is damaged: .*\nmove it away"):
        PoseFile(file.path)


def test_events_are_counted_by_text_and_keep_their_times():
    events = Events()
    events.note(1.0, "pan: blocked")
    for at in range(2, 300):
        events.note(at, "tilt: missing")
        events.note(at + 0.5, "tilt: returned")
        events.go_on(at, "pan: blocked")
    assert [(line.text, line.first, line.last, line.times) for line in events.latest()] == [
        ("tilt: returned", 2.5, 299.5, 298),
        ("tilt: missing", 2.0, 299.0, 298),
        ("pan: blocked", 1.0, 299.0, 1),
    ]


def test_a_shutdown_is_shown_until_recover_also_after_missing_replies(real):
    line, robot, page = real
    line.errors[1] = ErrorFlag.OVERLOAD
    step_until(robot, lambda: page.picture and page.picture.lost == {"s1": "overload"})
    line.deaf = {1}
    step_until(robot, lambda: page.picture.lost == {"s1": "missing, overload"})
    line.deaf = set()
    step_until(robot, lambda: page.picture.lost == {"s1": "overload, off until it is recovered"})
    assert any("s1: returned" in line.text for line in page.events.latest())
    line.errors[1] = 0
    robot["s1"].recover()
    step_until(robot, lambda: page.picture.lost == {})


def test_the_page_says_when_steps_are_late():
    with (
        axbridge.open("bench_arm", realtime=True) as robot,
        robot.view(port=0, open=False) as page,
        page_client(page) as client,
    ):
        step_until(robot, lambda: time.sleep(0.06) or "of 50 steps/s: steps are late" in client.text)


def test_a_standing_humanoid_shows_where_the_floor_pushes_its_feet():
    with axbridge.open("bioloid") as robot, robot.view(port=0, open=False) as page:
        for servo in robot.values():
            servo.torque_on()
        robot.step(20)
        hold_up(robot.simulation, 1.0)  # it has sunk since it was opened: MuJoCo's would fall on its back
        step_until(robot, lambda: robot.time > 2.0 and page.picture.time > robot.time - 1.0, 30)
        pushed = page.picture.contacts
        assert {contact.link for contact in pushed} == {"left_ankle_lateral_link", "right_ankle_lateral_link"}
        weight = 9.81 * float(robot.rig.tree().mass.sum())
        assert sum(contact.force[2] for contact in pushed) == pytest.approx(weight, rel=0.2)
        drawn = page.picture.numbers[7 + 7 * len(robot) :].reshape(-1, 6)  # behind the base and the columns
        strongest = sorted(pushed, key=lambda contact: -float(np.linalg.norm(contact.force)))
        np.testing.assert_allclose(drawn, [(*contact.point, *contact.force) for contact in strongest], rtol=1e-5)


def test_a_new_page_gets_past_frames_and_further_ones_only_during_motion(arm, page):
    servo = arm["shoulder"]
    servo.set_position(0.5)
    step_until(arm, lambda: servo.position > 0.45)
    start = time.monotonic()
    with page_client(page) as client:
        step_until(arm, lambda: client.receive() or time.monotonic() > start + 1.0)
        moved = [position for _, (*_, position, _, _, _, _, _) in client.frames]
        assert len(client.frames) >= 3
        assert max(moved) - min(moved) > 0.3  # the way to where it is now
        step_until(arm, lambda: abs(servo.velocity) < 1e-3 and time.monotonic() > start + 2.0)
        client.receive()
        before, start = len(client.frames), time.monotonic()
        step_until(arm, lambda: client.receive() or time.monotonic() > start + 2.0)
        assert 2 <= len(client.frames) - before <= 8  # of 50 that could come


WATCHED = """
import sys, axbridge
with axbridge.open(sys.argv[1], backend="real", port=sys.argv[2]) as robot:
    page = robot.view(port=0, open=False)
    page.requests.ask("test", lambda: robot["s1"].set_position(0.2))  # in the first step: the watch runs from there
    page.run()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs SIGSTOP")
@pytest.mark.parametrize(("policy", "on"), [("[safety]\nstale_command_ms = 200", 0), ("", 1)])
def test_a_suspended_program_leaves_the_motors_as_the_rig_says_and_switches_none_on_later(tmp_path, policy, on):
    rig = write_comb(tmp_path, 1, extra=policy)
    with PtyLine((1,)) as line, Warm("-c", WATCHED, rig, line.port, stderr=subprocess.DEVNULL) as viewed:
        try:
            until(lambda: line.tables[1][24] and len(line.received) >= 100)
            viewed.send_signal(signal.SIGSTOP)
            time.sleep(0.5)  # twice the silence allowed, and a tenth
            until(lambda: line.tables[1][24] == on)
            count = len(line.received)
            viewed.send_signal(signal.SIGCONT)
            until(lambda: len(line.received) > count + 50)  # it goes on
            assert line.tables[1][24] == on
        finally:
            viewed.kill()
