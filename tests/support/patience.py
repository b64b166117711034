"""A bus that waits for a busy computer.

Where many processes share few cores, a served bus answers tens of milliseconds late now and then: later than a question
that is asked three times waits on a real line. Most tests are not about that. In theirs, and in the processes of
`tests/support/warm.py`, the third question waits for a tenth of a second. Programs of their own are as impatient as
they come.

Real servos wait for no processor. So those of tests get one whenever they want it, where Linux lets us: for root.
"""

import os
from contextlib import suppress

from axbridge.bus.base import Bus


def be_patient():
    """Let every bus of this process wait."""
    Bus.more_patience = 5


def come_first():
    """Let this thread, and all that it begins, go before others."""
    with suppress(AttributeError, PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
