"""Each promise stands in the docs, and the text that can be sent says which were seen, and nothing of its sender."""

import getpass
import platform
from pathlib import Path

import pytest

from axbridge.bus.handshake import Finding
from axbridge.cli.verify import _STEPS
from axbridge.config.rig import Rig
from axbridge.config.rig_copy import copy_rig
from axbridge.errors import UsageError
from axbridge.verify.outcome import StepOutcome, digest_of, load, save
from axbridge.verify.promises import PROMISES, counted, judged
from axbridge.verify.report import anonymous, text_of, write_verify_page

ROOT = Path(__file__).parents[2]
WHEN = "2026-01-02 03:04 UTC"
TITLES = {name: step.title for name, step in _STEPS.items()}


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.words)
def test_a_promise_stands_in_the_docs(promise):
    text = " ".join((ROOT / "docs" / promise.page).read_text(encoding="utf-8").split())
    assert promise.quote in text
    assert promise.step in {"", *_STEPS}


def test_nothing_is_seen_before_a_step_is_done_or_when_it_failed():
    assert {one.verdict for one in judged({})} == {"not tried"}
    failed = {name: StepOutcome("failed", WHEN, "r", lines=("why",)) for name in _STEPS}
    assert {one.verdict for one in judged(failed)} == {"not tried"}
    assert {one.why for one in judged({}) if not one.promise.step} == {"this program does not try it"}


def endings(on=()):
    kill = {"signal": "SIGKILL", "servos": 18, "moved_deg": 0.4, "seconds": 0.31, "on": list(on)}
    return StepOutcome("done", WHEN, "r", {"endings": [kill | {"signal": "SIGTERM"}, kill]})


def verdict(outcomes, words):
    (found,) = (one for one in judged(outcomes) if words in one.promise.words)
    return found.verdict, found.why


def test_what_the_facts_show_is_seen_and_what_they_contradict_is_not():
    assert verdict({"endings": endings()}, "after SIGKILL") == ("seen", "18 servos, known to be off after 0.31 s")
    assert verdict({"endings": endings(["left_knee"])}, "after SIGKILL") == ("not kept", "left_knee stayed on")
    line = {"latency_timer_ms": 16, "low_latency": False, "echo": True, "scan_s": 0.8, "wrong": 0, "reads": 2000}
    outcomes = {"line": StepOutcome("done", WHEN, "r", {"lines": [line]})}
    assert verdict(outcomes, "over at once") == ("not kept", "latency timer: 16 ms")
    assert verdict(outcomes, "echo") == ("seen", "it returns every byte")
    assert verdict(outcomes, "no value is wrong") == ("seen", "0 of 2000 reads were wrong")
    silent = {"lines": [{"latency_timer_ms": None, "low_latency": True, "echo": False, "scan_s": 0.8}]}
    assert verdict({"line": StepOutcome("done", WHEN, "r", silent)}, "no value") == (
        "cannot be judged here",
        "nothing was measured",
    )
    assert verdict({"line": StepOutcome("done", WHEN, "r", silent)}, "echo")[0] == "cannot be judged here"


@pytest.mark.parametrize(
    ("deaf", "heard", "expected"),
    [(4.5, 8.0, "seen"), (4.5, 17.7, "cannot be judged here"), (9.1, 17.7, "not kept"), (0.0, 2.0, "seen")],
)
def test_a_wait_within_what_is_not_known_of_a_deaf_servo_is_no_kept_promise(deaf, heard, expected):
    facts = {"deaf_ms": deaf, "heard_ms": heard, "waits_ms": 9.0, "spared": True, "writes": 8}
    outcomes = {"eeprom": StepOutcome("done", WHEN, "r", facts)}
    assert verdict(outcomes, "hears again")[0] == expected
    assert verdict(outcomes, "spared") == (
        "seen",
        "8 writes of another value; of the value that was there no byte was sent",
    )
    told = counted(judged(outcomes))
    for word in ("seen", "not kept", "cannot be judged here", "not tried"):
        assert f"{sum(one.verdict == word for one in judged(outcomes))} {word}" in told


def test_the_text_and_the_page_say_nothing_of_person_computer_or_adapter(tmp_path):
    rig = Rig.load(copy_rig(Rig.load("pan_tilt"), tmp_path / "anns_head")[0])
    port = "/dev/serial/by-id/usb-FTDI_USB__-__Serial_A4012345-if00-port0"
    findings = (
        Finding(port, "81 Hz", f"axbridge doctor --port {port}", False, "rate"),
        Finding("pan (id 1)", "turns the other way", f"axbridge calibrate --rig {rig.path}", True, "direction", 1),
    )
    outcomes = {"line": StepOutcome("failed", WHEN, "r", lines=(f"{port}: gone", str(rig.path)), findings=findings)}
    private = {port: "PORT", str(rig.path): "RIG", str(tmp_path): "FOLDER", str(Path.home()): "~"}
    text = text_of(rig, TITLES, outcomes, private)
    write_verify_page(tmp_path / "page.html", rig, TITLES, outcomes, private, None)
    for said in (
        text,
        (tmp_path / "page.html").read_text(encoding="utf-8").partition("<body>")[2].partition("</h1>")[2],
    ):
        for word in (
            "A4012345",
            str(tmp_path),
            "anns_head",
            str(Path.home()) + "/",
            platform.node(),
            getpass.getuser() + "@",
        ):
            assert word not in said
        assert "PORT: 81 Hz" in said or "<td>PORT</td>" in said
    assert "a rig of the owner's" in text
    assert "[not tried]" in text


def test_longer_words_are_hidden_first():
    assert anonymous("/home/ann/rig.toml, /home/ann", {"/home/ann": "~", "/home/ann/rig.toml": "RIG"}) == "RIG, ~"


def test_what_was_found_is_kept_and_taken_up_again(tmp_path):
    rig = Rig.load("bench_arm")
    finding = Finding("shoulder (id 1)", "lost 3 of 9 answers", "check its cable", False, "loss", 1)
    outcomes = {"line": StepOutcome("done", WHEN, digest_of(rig), {"lines": []}, ("told",), (finding,))}
    save(tmp_path / "verify.json", rig, outcomes)
    assert load(tmp_path / "verify.json", rig) == outcomes
    assert load(tmp_path / "nothing.json", rig) == {}
    with pytest.raises(UsageError, match="is of rig bench_arm, not of bioloid"):
        load(tmp_path / "verify.json", Rig.load("bioloid"))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"form": 1, "rig": "bench_arm", "steps": {"line": {}}}', "\xff"])
def test_a_file_that_is_not_ours_is_refused_in_words(tmp_path, content):
    (tmp_path / "verify.json").write_text(content, encoding="latin-1")
    with pytest.raises(UsageError, match="is not what `axbridge verify` wrote"):
        load(tmp_path / "verify.json", Rig.load("bench_arm"))


def test_a_rig_that_was_calibrated_is_another_one():
    rig = Rig.load("pan_tilt")
    servos = tuple(servo.model_copy(update={"zero": servo.zero + 1}) for servo in rig.servos)
    assert digest_of(rig) != digest_of(rig.model_copy(update={"servos": servos}))
