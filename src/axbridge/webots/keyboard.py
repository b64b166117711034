"""Webots' Keyboard on a terminal: key codes of R2025a, read from standard input without waiting."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import select
import sys
import time
import warnings
from typing import ClassVar

from axbridge.webots.devices import Sensor, getter
from axbridge.webots.session import current

_MOST = 7  # keys held at a time
_FIRST, _REPEAT = 0.6, 0.15  # s; a terminal repeats a held key after about 0.5 s, and then every 0.03 s
_ESCAPES = {"A": 315, "B": 317, "C": 316, "D": 314, "F": 312, "H": 313, "5~": 366, "6~": 367, "1~": 313, "4~": 312}
_KEY = re.compile(r"\x1b[\[O]([0-9;]*)(.?)|\x1b(.)|(.)", re.DOTALL)
_NAMES = {312: "end", 313: "home", 314: "left", 315: "up", 316: "right", 317: "down", 366: "page up", 367: "page down"}
_SHIFT, _CONTROL, _ALT = 0x10000, 0x20000, 0x40000
_MODIFIERS = {"2": _SHIFT, "3": _ALT, "4": _SHIFT + _ALT, "5": _CONTROL, "6": _SHIFT + _CONTROL}


def decode(text: str) -> list[int]:
    """Return the key codes of a terminal's input; letters are upper-case ASCII, modifiers are added."""
    codes = []
    for numbers, letter, alt, plain in _KEY.findall(text):
        number, _, modifier = numbers.partition(";")  # ESC [ 1 ; 5 C: Control and right
        key = letter if numbers.startswith("1;") else number + letter
        if plain:
            codes.append(_plain(plain))
        elif alt:
            codes.append(_ALT + ord(alt.upper()))
        elif key in _ESCAPES:
            codes.append(_MODIFIERS.get(modifier, 0) + _ESCAPES[key])
    return codes


def _plain(character: str) -> int:
    code = ord(character)
    if 1 <= code <= 26 and character not in "\t\n\r":
        return _CONTROL + code + 64
    if character.isalpha() and character.isupper():
        return _SHIFT + code
    return 10 if character == "\r" else ord(character.upper()[0])


class Keyboard(Sensor):
    """The keys held in this step. All instances share one state, as in Webots.

    A terminal sends a key when it is pressed and repeats it while it is held, but sends nothing at its release. So a
    key counts as held for 0.6 s after it was pressed, and for 0.15 s after each repeat.
    """

    _period: ClassVar[int] = 0
    _keys: ClassVar[list[int]] = []
    _held: ClassVar[dict[int, float]] = {}  # by key: end of its hold, monotonic, s
    _restore: ClassVar[list[object] | None] = None  # the terminal's mode before; it is raw while enabled
    _passed: ClassVar[float] = 0.0
    END, HOME, LEFT, UP, RIGHT, DOWN, PAGEUP, PAGEDOWN = 312, 313, 314, 315, 316, 317, 366, 367
    NUMPAD_HOME, NUMPAD_LEFT, NUMPAD_UP, NUMPAD_RIGHT, NUMPAD_DOWN, NUMPAD_END = 375, 376, 377, 378, 379, 382
    KEY, SHIFT, CONTROL, ALT = 0xFFFF, _SHIFT, _CONTROL, _ALT

    def __init__(self, sampling_period: int | None = None) -> None:
        super().__init__("Keyboard", sampling_period, registered=sampling_period == 0)

    def _enable(self, period: int) -> None:
        Keyboard._period, Keyboard._keys, Keyboard._held = period, [], {}
        if not period:
            Keyboard._cooked()
            return
        Keyboard._raw()
        if Keyboard._tick not in current().ticks:
            current().ticks.append(Keyboard._tick)

    getSamplingPeriod = getter("_period")

    def getKey(self) -> int:
        """Return the next key held in this step, or -1."""
        if not self._period:
            self._say_disabled("getKey")
        return self._keys.pop(0) if self._keys else -1

    getKeyCode = getKey

    def get_key(self) -> str:
        """Return the next key as text, with the prefix `shift-`, `control-` or `atl-` (sic), or an empty text."""
        code = self.getKey()
        if code == -1:
            return ""
        prefix = "shift-" * bool(code & _SHIFT) + "control-" * bool(code & _CONTROL) + "atl-" * bool(code & _ALT)
        key = code & 0xFFFF
        return prefix + (_NAMES.get(key) or chr(key))

    @classmethod
    def _tick(cls, passed: float) -> None:
        cls._passed += passed
        if not cls._period or cls._passed < cls._period:
            return
        cls._passed = 0.0
        now = time.monotonic()
        pressed = decode(cls._pending())
        cls._held = {key: until for key, until in cls._held.items() if until > now or key in pressed}
        for key in pressed:  # a key from a pipe counts only for this step
            cls._held[key] = now + (0.0 if cls._restore is None else _REPEAT if key in cls._held else _FIRST)
        cls._keys = list(cls._held)[:_MOST]

    @staticmethod
    def _pending() -> str:
        """Return the waiting input; empty at its end."""
        with contextlib.suppress(OSError, ValueError):  # standard input is closed, or is no file
            number = sys.stdin.fileno()
            if select.select([number], [], [], 0)[0]:
                return os.read(number, 4096).decode("utf-8", "ignore")  # only one read: a pipe may be refilled for ever
        return ""

    @classmethod
    def _raw(cls) -> None:
        if cls._restore is not None or not sys.stdin or not sys.stdin.isatty():
            return
        try:
            import termios
            import tty
        except ImportError as failure:  # on Windows
            warnings.warn(f"keys cannot be read on this terminal ({failure})", RuntimeWarning, stacklevel=4)
            return
        cls._restore = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin)
        atexit.register(cls._cooked)

    @classmethod
    def _cooked(cls) -> None:
        if cls._restore is not None:
            import termios

            with contextlib.suppress(termios.error):  # the terminal was closed
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, cls._restore)  # type: ignore[arg-type]  # as it was got
            cls._restore = None
