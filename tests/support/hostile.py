"""Files as nobody should write them: whole ones with a few edits, by seeds that hypothesis draws."""

import re
from random import Random

from hypothesis import strategies as st

VALUES = (  # in place of a number, a string or a name
    *("0", "-1", "1", "2", "1.5", "-0.0", "1e-300", "1e300", "-1e300", "1e308", "1E+999999999", "1e-999999999", "nan"),
    *("inf", "-inf", "NaN", "Infinity", "9" * 400, "9" * 5000, "0x7fffffffffffffff", "4294967296", "-2147483649"),
    *("true", "null", '""', '"x"', "[]", "{}", "[[1]]", '{"a": 1}', "[" * 3000, '{"a":' * 3000, "a." * 900 + "a = 1"),
    *('"\\u001b[31m"', '"\\u0000"', "\x1b[31m", "\x00", "\x9b", "\u202e", "../../etc/passwd", "a" * 300, "é" * 300),
    *("", ",", "\n", "=", "]", "}", "<!--", "<a>", "&x;", "${1/0}", "%s%n", "::", "*", "NaN,NaN"),
)
_TOKEN = re.compile(rb"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?|\"[^\"\n]*\"|[A-Za-z_][A-Za-z_0-9]*")
_KINDS = ("value", "value", "value", "value", "flip", "cut", "drop", "double")
AT_ONCE = 10
SEEDS = st.lists(st.integers(0, 2**32 - 1), min_size=AT_ONCE, max_size=AT_ONCE)  # drawing is what takes time


def edited(content, seed):
    """`content`, bytes, with one to four edits."""
    random = Random(seed)
    for _ in range(random.randint(1, 4)):
        if not content:
            break
        kind, at = random.choice(_KINDS), random.randrange(len(content))
        if kind == "value":
            found = _TOKEN.search(content, at) or _TOKEN.search(content)
            if found:
                content = content[: found.start()] + random.choice(VALUES).encode() + content[found.end() :]
        elif kind == "flip":
            content = content[:at] + bytes((content[at] ^ random.randint(1, 255),)) + content[at + 1 :]
        elif kind == "cut":
            content = content[:at]
        elif kind == "drop":
            content = content[:at] + content[at + random.randint(1, 80) :]
        else:  # lines twice, or in another order
            begin, end = content.rfind(b"\n", 0, at) + 1, content.find(b"\n", at) + 1 or len(content)
            content = content[:end] + content[begin:end] * random.randint(1, 3) + content[end:]
    return content
