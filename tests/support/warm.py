"""Processes of axbridge that run at once: forked from one that has imported what they all need, kernels included.

Such a process has signals, streams, exit handlers and an exit status as any other; only its imports are older than
itself. Each process of pytest has its own `python warm.py DESCRIPTOR`, which is forked; one more for each interpreter.
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
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).parents[2]
_SERVERS = {"serve", "tests.support.hand"}  # their servos wait for no processor
_NUMBER = struct.Struct("i")
_MOST = 1 << 17  # bytes of a request


class Warm(subprocess.Popen):
    """What `python -m MODULE …` or `python -c CODE …` does; its streams are text, and pipes where nothing else is said."""

    def __init__(self, *arguments, python=sys.executable, **options):
        self._python = str(python)
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        super().__init__([str(one) for one in arguments], text=True, **{**pipes, **options})

    def _execute_child(self, args, _executable, _preexec, _close, _pass, cwd, env, _info, _flags, _shell, *streams):
        stdin, ours_in, ours_out, stdout, ours_err, stderr = streams[:6]
        theirs = [number if stream < 0 else stream for number, stream in enumerate((stdin, stdout, stderr))]
        self._told, told = os.pipe()
        request = {"arguments": args, "cwd": str(cwd or Path.cwd()), "env": dict(env or os.environ)}
        request["session"] = streams[11]
        socket.send_fds(_begun(self._python)[0], [json.dumps(request).encode()], [*theirs, told])
        os.close(told)
        for ours, stream in ((ours_in, stdin), (ours_out, stdout), (ours_err, stderr)):
            if ours >= 0:
                os.close(stream)
        (self.pid,) = _NUMBER.unpack(os.read(self._told, _NUMBER.size))
        self._child_created = True

    def __exit__(self, kind, *error):
        if kind is not None and self.returncode is None:
            self.kill()  # a failed assertion is told, not waited for
        super().__exit__(kind, *error)

    def _try_wait(self, wait_flags):
        if wait_flags & os.WNOHANG and not select.select([self._told], (), (), 0)[0]:
            return 0, 0
        (status,) = _NUMBER.unpack(os.read(self._told, _NUMBER.size))
        os.close(self._told)
        return self.pid, status

    def _internal_poll(self, *_, **__):
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)
        return self.returncode


def start(*arguments, **options):
    """Begin a verb of the program."""
    return Warm("-m", "axbridge", *arguments, **options)


def run(*arguments, seconds=120, **options):
    """What a verb of the program says until it ends, and its exit status."""
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
def _begun(python):
    """Begin what is forked: the socket that takes requests, and the process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [python, __file__, str(theirs.fileno())]
    alone = {"OPENBLAS_NUM_THREADS": "1"}  # what is forked should have no other threads
    process = subprocess.Popen(command, cwd=_ROOT, pass_fds=[theirs.fileno()], env={**os.environ, **alone})
    theirs.close()
    return ours, process


def _import_all():
    from importlib import import_module
    from pkgutil import iter_modules

    import typer.main
    from verbs import remember_parameters  # of this folder
    from waiting import be_patient

    from axbridge import cli
    from axbridge.cli.app import app
    from axbridge.config.profile import FOLDER, FirmwareProfile
    from axbridge.config.rig import Rig
    from axbridge.config.toml_tables import shipped_names
    from axbridge.virtual.world import World

    be_patient()
    remember_parameters()
    for verb in iter_modules(cli.__path__):
        import_module(f"axbridge.cli.{verb.name}")
    typer.main.get_command(app)
    for name in ("recording.recorder", "robot.open", "sim.bank_process", "virtual.channel", "virtual.server"):
        import_module(f"axbridge.{name}")
    for profile in shipped_names(FOLDER):
        FirmwareProfile.load(profile)  # which keeps them
    world = World(Rig.load("bench_arm"))
    world.sleep_until(0.1)  # which loads the kernels
    world.close()
    gc.collect()
    gc.freeze()


def _next(link):
    """Fork for each request, and tell what becomes of it; in the forked process, return the request."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends pytest, and that ends this
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    told = {}  # by process: where its end is told
    while True:
        if woken in select.select([link, woken], (), ())[0]:
            os.read(woken, 4096)
            for pid in list(told):
                if (ended := os.waitpid(pid, os.WNOHANG))[0]:
                    _tell(told.pop(pid), ended[1], last=True)
            continue
        request, streams, _, _ = socket.recv_fds(link, _MOST, 4)
        if not request:
            os._exit(0)
        if pid := os.fork():
            *theirs, told[pid] = streams
            for stream in theirs:
                os.close(stream)
            _tell(told[pid], pid)
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup's children ignore it
        for number, stream in enumerate(streams[:3]):
            os.dup2(stream, number)
        for descriptor in (*streams, *told.values(), woken, wake, link.detach()):
            os.close(descriptor)
        return json.loads(request)


def _tell(told, number, *, last=False):
    with suppress(BrokenPipeError):  # nobody wants to know
        os.write(told, _NUMBER.pack(number))
    if last:
        os.close(told)


def _become(request):
    """Do what the interpreter does at its start."""
    if request["session"]:
        os.setsid()
    if _SERVERS.intersection(request["arguments"]):
        come_first()
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
        with suppress(OSError, ValueError):  # the interpreter tries again, and has an exit status for it
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


if __name__ == "__main__":
    atexit.register(_end)  # before all others, and so the last one
    from waiting import come_first  # of this folder

    _import_all()
    _become(_next(socket.socket(fileno=int(sys.argv[1]))))
