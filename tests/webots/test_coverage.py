"""The table of docs/reference-webots.md covers what Webots' pages list."""

import re

from axbridge.webots import CLASSES
from axbridge.webots.joints import Brake, Motor, PositionSensor
from tools.webots_coverage import ROWS, supports


def test_every_method_named_exists_and_every_method_of_the_joints_has_a_row():
    named = {row.method for row in ROWS if row.method}
    for method in named:
        owner, name = method.split(".")
        assert callable(getattr(CLASSES[owner], name))
    inherited = {"getName", "getModel", "getNodeType", "getMotor", "getType", "getSamplingPeriod", "enable", "disable"}
    for owner in (Motor, PositionSensor, Brake):
        methods = {name for name in vars(owner) if re.match(r"(get|set|enable|disable)[A-Z]?", name)}
        missing = {f"{owner.__name__}.{name}" for name in methods - inherited} - named
        assert missing == set()


def test_rows_use_the_words_of_capabilities():
    words = {word for row in ROWS for word in supports(row)}
    assert words == {"native", "emulated", "unsupported"}
