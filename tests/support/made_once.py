"""What takes seconds to make, made once for all processes of pytest."""

import fcntl
import os
import pickle


def made_once(factory, name, make):
    """What `make(folder)` returns, called in the first process only; the others get it pickled. pytest's `factory`."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    made = folder / "made.pickle"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            made.write_bytes(pickle.dumps(make(folder)))
    return pickle.loads(made.read_bytes())
