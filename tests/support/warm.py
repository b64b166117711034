"""Processes of axbridge that start at once: forked from a process that has imported all modules, with compiled kernels.

Such a process has the signals, streams, exit handlers and exit status of any other process. Each process of pytest has
its own `python warm.py DESCRIPTOR`, which is forked, and one more for each other interpreter.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).parents[2]
_SERVERS = {"serve", "tests.support.hand"}  # they get a real-time priority
_NUMBER = struct.Struct("i")
_MOST = 1 << 17  # bytes of a request


class Warm:
    """Runs `python -m MODULE …` or `python -c CODE …`, like a `subprocess.Popen` whose streams are text.

    A stream is a pipe, a given file or descriptor, `subprocess.DEVNULL`, or with None that of this process.
    """

    def __init__(self, *arguments, python=sys.executable, cwd=None, env=None, start_new_session=False, **streams):
        self._arguments = list(map(str, arguments))
        self.returncode, self._reads = None, None
        kinds = {"stdin": "w", "stdout": "r", "stderr": "r"}  # of our ends
        theirs = [self._connect(name, mode, streams.get(name, subprocess.PIPE)) for name, mode in kinds.items()]
        self._end, end = os.pipe()
        request = {"arguments": self._arguments, "cwd": str(cwd or Path.cwd()), "env": dict(env or os.environ)}
        request["session"] = start_new_session
        socket.send_fds(_server(str(python))[0], [json.dumps(request).encode()], [*theirs, end])
        for descriptor in (*theirs, end):
            os.close(descriptor)
        (self.pid,) = _NUMBER.unpack(os.read(self._end, _NUMBER.size))

    def _connect(self, name, mode, given):
        """Set our end of a stream, if it is a pipe; return the descriptor of the other end."""
        setattr(self, name, None)
        if given == subprocess.PIPE:
            theirs, ours = os.pipe() if mode == "w" else os.pipe()[::-1]
            setattr(self, name, os.fdopen(ours, mode))
            return theirs
        if given == subprocess.DEVNULL:
            return os.open(os.devnull, os.O_RDWR)
        own = ("stdin", "stdout", "stderr").index(name)
        return os.dup(own if given is None else given if isinstance(given, int) else given.fileno())

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.kill()  # a failed assertion must not wait for it
        self._close()
        self.wait()

    def _close(self):
        for stream in filter(None, (self.stdin, self.stdout, self.stderr)):
            with suppress(BrokenPipeError):
                stream.close()

    def poll(self):
        """Return the exit status, as `subprocess` has it; None while it runs."""
        return self._status(0.0)

    def _status(self, timeout):
        if self.returncode is None and select.select([self._end], (), (), timeout)[0]:
            (status,) = _NUMBER.unpack(os.read(self._end, _NUMBER.size))
            os.close(self._end)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout=None):
        if self._status(timeout) is None:
            raise subprocess.TimeoutExpired(self._arguments, timeout)
        return self.returncode

    def communicate(self, timeout=None):
        """Close its input; return the rest of its output and of its errors when it has ended."""
        if self._reads is None:
            if self.stdin is not None:
                with suppress(BrokenPipeError):
                    self.stdin.close()
            readers = ThreadPoolExecutor(2)
            self._reads = [stream and readers.submit(stream.read) for stream in (self.stdout, self.stderr)]
            readers.shutdown(wait=False)
        if futures.wait(filter(None, self._reads), timeout).not_done:
            raise subprocess.TimeoutExpired(self._arguments, timeout)
        self.wait(timeout)
        self._close()
        return tuple(read and read.result() for read in self._reads)

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def remember_parameters():
    """Let typer read the signature of a verb only once: it reads those of all imported verbs in each run, in 60 ms."""
    import typer.main

    typer.main.get_params_from_function = cache(typer.main.get_params_from_function)


def start(*arguments, **options):
    """Begin a verb of the program."""
    return Warm("-m", "axbridge", *arguments, **options)


def run(*arguments, seconds=120, **options):
    """Run a verb of the program; return its output and its exit status."""
    with start(*arguments, **{"stdin": subprocess.DEVNULL, **options}) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            process.kill()
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@contextmanager
def serving(rig, *options):
    """Run `axbridge serve RIG OPTIONS`; yield the port of its first bus."""
    with start("serve", rig, *options) as server:
        try:
            said = server.stdout.readline()
            assert said.startswith("ready: "), said + server.communicate()[1]
            yield said.split()[1]
        finally:
            server.terminate()
            server.communicate(timeout=20)


@cache
def _server(python):
    """Start the process that is forked; return the socket for requests, and the process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [python, __file__, str(theirs.fileno())]
    alone = {"OPENBLAS_NUM_THREADS": "1"}  # a process that forks should have no other threads
    process = subprocess.Popen(command, cwd=_ROOT, pass_fds=[theirs.fileno()], env={**os.environ, **alone})
    theirs.close()
    return ours, process


def _import_all():
    from importlib import import_module
    from pkgutil import iter_modules

    import typer.main
    from waiting import extend_timeouts  # of this folder

    from axbridge import cli
    from axbridge.cli.app import app
    from axbridge.config.profile import FOLDER, FirmwareProfile
    from axbridge.config.rig import Rig
    from axbridge.config.toml_tables import shipped_names
    from axbridge.virtual.world import World

    extend_timeouts()
    remember_parameters()
    for verb in iter_modules(cli.__path__):
        import_module(f"axbridge.cli.{verb.name}")
    typer.main.get_command(app)
    for name in ("recording.recorder", "robot.open", "sim.bank_process", "virtual.channel", "virtual.server"):
        import_module(f"axbridge.{name}")
    for profile in shipped_names(FOLDER):
        FirmwareProfile.load(profile)  # kept in a cache
    world = World(Rig.load("bench_arm"))
    world.sleep_until(0.1)  # loads the kernels
    world.close()
    gc.collect()
    gc.freeze()


def _next(link):
    """Fork for each request and report the exit status; in the forked process, return the request."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends pytest, which ends this process
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    reports = {}  # by process: descriptor to which its id and its exit status are written
    while True:
        if woken in select.select([link, woken], (), ())[0]:
            os.read(woken, 4096)
            for pid in list(reports):
                if (ended := os.waitpid(pid, os.WNOHANG))[0]:
                    _report(reports.pop(pid), ended[1], last=True)
            continue
        request, streams, _, _ = socket.recv_fds(link, _MOST, 4)
        if not request:
            os._exit(0)
        if pid := os.fork():
            *theirs, reports[pid] = streams
            for stream in theirs:
                os.close(stream)
            _report(reports[pid], pid)
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup's children ignore it
        for number, stream in enumerate(streams[:3]):
            os.dup2(stream, number)
        for descriptor in (*streams, *reports.values(), woken, wake, link.detach()):
            os.close(descriptor)
        return json.loads(request)


def _report(descriptor, number, *, last=False):
    with suppress(BrokenPipeError):  # the reader has ended
        os.write(descriptor, _NUMBER.pack(number))
    if last:
        os.close(descriptor)


def _become(request):
    """Set the state of a new interpreter, and run the request."""
    if request["session"]:
        os.setsid()
    if _SERVERS.intersection(request["arguments"]):
        raise_priority()
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115 - by lines where it is a terminal
    sys.stderr = sys.__stderr__ = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115
    if "PYTHONUNBUFFERED" in os.environ:
        sys.stdout.reconfigure(write_through=True)
    sys.path[0] = request["cwd"]
    kind, what, *sys.argv[1:] = request["arguments"]
    if kind == "-m":
        try:
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            _STATUS[what] = end.code
            raise
        return
    sys.argv[0] = kind
    sys.modules["__main__"] = main = ModuleType("__main__")
    exec(compile(what, "<string>", "exec"), main.__dict__)


_STATUS = {}  # of the module that has ended by `sys.exit`


def _end():
    """End a verb after its threads and all other exit handlers; to free its modules takes longer than most verbs."""
    if isinstance(status := _STATUS.get("axbridge"), int):
        with suppress(OSError, ValueError):  # the interpreter flushes again, and reports the error in its exit status
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


if __name__ == "__main__":
    atexit.register(_end)  # registered first, so it is called last
    from waiting import raise_priority  # of this folder

    _import_all()
    _become(_next(socket.socket(fileno=int(sys.argv[1]))))
