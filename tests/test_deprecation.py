"""What is deprecated says so where it is used, and is gone when that was promised."""

import warnings
from importlib import import_module
from pathlib import Path

import pytest

import axbridge
from axbridge.deprecation import Deprecated


def numbers(version):
    return tuple(int(part) for part in version.split("."))


@pytest.fixture
def mark(monkeypatch):
    monkeypatch.setattr(Deprecated, "marked", {})
    return Deprecated(since="0.2.0", gone="0.4.0", use="Servo.position")


def test_a_deprecated_function_works_and_warns_at_the_users_line(mark):
    @mark
    def angle(servo, *, scale=1):
        """The angle, rad."""
        return servo * scale

    with pytest.warns(DeprecationWarning, match="angle is deprecated") as seen:
        assert angle(2, scale=3) == 6
    assert str(seen[0].message).endswith(
        "angle is deprecated since axbridge 0.2.0 and goes with 0.4.0: use Servo.position"
    )
    assert Path(seen[0].filename) == Path(__file__)
    assert angle.__doc__.startswith("The angle, rad.")
    assert "gone with 0.4.0" in angle.__doc__


def test_a_deprecated_class_warns_when_it_is_made_and_may_be_asked_for(mark):
    @mark
    class Motor:
        pass

    with pytest.warns(DeprecationWarning, match="Motor is deprecated"):
        motor = Motor()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(motor, Motor)


def test_a_deprecated_method_warns(mark):
    class Arm:
        @mark
        def angle(self):
            return 0.5

    with pytest.warns(DeprecationWarning, match=r"Arm\.angle is deprecated"):
        assert Arm().angle() == 0.5


def test_what_was_promised_to_go_is_gone():
    """It imports the files that mark something, and looks what they promised."""
    source = Path(axbridge.__file__).parent
    for path in source.rglob("*.py"):
        if "@Deprecated(" in path.read_text(encoding="utf-8"):
            import_module(".".join(("axbridge", *path.relative_to(source).with_suffix("").parts)))
    overdue = {name for name, one in Deprecated.marked.items() if numbers(one.gone) <= numbers(axbridge.__version__)}
    assert overdue == set()
