"""`axbridge serve`: serve a rig's virtual servos on a pseudo-terminal or TCP port."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

from axbridge import Rig, RigError, UsageError
from axbridge.bridge.replay import Replay
from axbridge.cli.app import DONE, note
from axbridge.cli.options import MEASURED, RigArgument, verb
from axbridge.cli.progress import progress
from axbridge.config.registers import MOST_OFFSET, OperatingMode
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import Remedy
from axbridge.jit import LIGHTEN
from axbridge.recording.import_arms import read_calibration
from axbridge.robot.rig_check import refuse_unsound
from axbridge.sim.bank_process import RemoteBank
from axbridge.sim.engines.choice import with_usual_engine
from axbridge.sim.support import supported
from axbridge.virtual.assembly import build_bank
from axbridge.virtual.channel import Channel, PtyChannel, TcpChannel, is_loopback, parse_address
from axbridge.virtual.control import Control
from axbridge.virtual.faults import parse_faults
from axbridge.virtual.server import Console
from axbridge.virtual.server import serve as serve_world
from axbridge.virtual.world import World

_STDIN = 0
_REPLAY = "Answer as recorded by `bridge --record`, while the packets are the same."


@verb("bench_arm --link /tmp/arm --faults drop=0.01")
def serve(
    rig: RigArgument,
    *,
    engine: str | None = None,
    link: Annotated[Path | None, "With several buses: PATH-BUS."] = None,
    timing: str = "wire",
    faults: Annotated[str, "To simulate: drop=0.01,echo,brownout@2s …"] = "",
    seed: int = 0,
    model: Annotated[str | None, "Default: ax12, where the firmware has its law."] = None,
    tcp: Annotated[str, "The next bus has the next port."] = "",
    replay: Annotated[Path | None, _REPLAY, "FILE.mcap"] = None,
    calibration: Annotated[Path | None, "It is written into the servos' registers."] = None,
    json: bool = False,
    allow_remote: Annotated[bool, "Let other machines reach --tcp, and move the robot."] = False,
) -> int:
    """Put a rig's virtual servos on a pseudo-terminal, which Dynamixel software opens like a serial port.

    It prints `ready: PORT` when clients may connect. On a terminal it also prints its servos and a command to try. To
    set faults while it runs, write a line to its standard input: a value of --faults, or `none`. With --json each line
    is a JSON object, and is answered by one, for tests in any language: docs/test-your-driver.md. Then it ends when
    its input ends.
    """
    parse_faults(faults)
    if tcp and not is_loopback(parse_address(tcp)[0]):
        if not allow_remote:
            hint = "serve on 127.0.0.1, or add --allow-remote"
            raise UsageError(f"--tcp {tcp}: other machines could move the robot", hint)
        print(f"axbridge: every program that reaches {tcp} can move the robot", file=sys.stderr)
    if hasattr(signal, "SIGTTIN"):
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # a background process must not stop when it reads the terminal
    loaded = served(with_usual_engine(Rig.load(rig), engine), model)
    if calibration is not None:
        loaded = calibrated(loaded, calibration)
    refuse_unsound(loaded)
    with progress(f"building {loaded.name}"):
        bank = supported(build_bank(loaded, seed=seed), loaded)
        motors = RemoteBank(bank) if hasattr(os, "fork") else bank  # simulates in a separate process
        world = World(loaded, seed=seed, timing="none" if timing == "none" else "wire", bank=motors)
    stop: list[int] = []  # until here a signal ends the program at once
    hung_up = getattr(signal, "SIGHUP", signal.SIGTERM)  # sent when the terminal closes; ignored under nohup
    for number in (signal.SIGINT, signal.SIGTERM, *([hung_up] if signal.getsignal(hung_up) != signal.SIG_IGN else [])):
        signal.signal(number, lambda received, _frame: stop.append(received))

    def ready() -> None:
        if control is not None:
            _to_stdout(control.ready())
            return
        for name, channel in channels.items():
            print(f"ready: {channel.address}" + (f" {name}" if len(channels) > 1 else ""), flush=True)
        if link is not None and not sys.stdout.isatty():
            print(f"linked: {link}{'-BUS' * (len(channels) > 1)}", file=sys.stderr, flush=True)
        if sys.stdout.isatty():
            _explain(loaded, channels, timing, faults, link)

    channels: dict[str, Channel] = {}
    control: Control | None = None
    try:
        world.inject(faults)
        if replay is not None:
            Replay(replay, world, _to_stderr)
        for place, (name, line) in enumerate(world.lines.items()):
            if tcp:
                host, port = parse_address(tcp)
                channels[name] = TcpChannel(host, port + place if port else 0)
            else:
                several = link is not None and len(world.lines) > 1
                channels[name] = PtyChannel(line.baud, Path(f"{link}-{name}") if several else link)
        has_stdin = sys.stdin is not None and os.name != "nt"  # on Windows `select` takes sockets only
        control = Control(world, channels) if json else None
        run_command = control.run_command if control else lambda text: _run_command(world, text)
        console = Console(_STDIN, run_command, _to_stdout if json else _to_stderr) if has_stdin else None

        def stopping() -> bool:
            return bool(stop) or (json and console is not None and console.descriptor < 0)  # end of input

        lateness = serve_world(world, channels, stopping, ready, console)
    finally:
        for channel in channels.values():
            channel.close()
        world.close()
    if sys.stdout.isatty():
        print("stopped: the port is closed, and nothing was written")
    print(lateness.summary(sum(line.packets for line in world.lines.values())), file=sys.stderr)
    if lateness.unanswered:
        note(f"this machine was too busy: packets without an answer: {lateness.unanswered}; {LIGHTEN}", kind="warning")
    return DONE


def served(rig: Rig, model: str | None = None) -> Rig:
    """Return the rig with this model, else with the measured one: a served rig takes the place of hardware."""
    if model is not None:
        return rig.with_model(model)
    try:
        return rig.with_model(MEASURED)
    except RigError:  # no servo's firmware has the model's control law
        return rig


def calibrated(rig: Rig, path: Path) -> Rig:
    """Return the rig with the registers of a LeRobot calibration file; servos are matched by id.

    Position Control Mode ignores a Homing Offset beyond `MOST_OFFSET`: such a servo gets Extended Position Control
    Mode, as LeRobot sets it.

    Raises:
        RecordingError: the file is no calibration.
        UsageError: the rig has several buses, lacks a servo with such an id, or a servo has no Homing Offset.
    """
    arm = {joint.id: joint for joint in read_calibration(path).values()}
    if strange := arm.keys() - {servo.id for servo in rig.dynamixels}:
        why = f"{path}: the rig {rig.name} has no servo {', '.join(sorted(map(str, strange)))}"
        raise UsageError(why, "serve the rig of that arm")
    if len(rig.buses) > 1:
        raise UsageError(f"the rig {rig.name} has several buses, and a calibration is of one", "make a rig of each bus")

    def held(servo: ServoConfig) -> dict[str, dict[str, int]]:
        if (joint := arm.get(servo.id)) is None:
            return {}
        profile = rig.specs[servo.name].profile
        if "homing_offset" not in profile.registers:
            raise UsageError(f"an {profile.name} has no homing offset", "serve the rig of that arm")
        registers = {**servo.registers, "homing_offset": joint.homing_offset, profile.names.low: joint.range_min}
        registers[profile.names.high] = joint.range_max
        if "drive_mode" in profile.registers:
            registers["drive_mode"] = joint.drive_mode
        if abs(joint.homing_offset) > MOST_OFFSET and profile.turn(registers) is not None:
            registers["operating_mode"] = OperatingMode.EXTENDED_POSITION
        return {"registers": registers}

    return rig.with_servos(held)


def _explain(rig: Rig, channels: dict[str, Channel], timing: str, faults: str, link: Path | None) -> None:
    """Print the servos and the next command for a user at a terminal."""
    print(f"serving {rig.name}: {rig.description}" if rig.description else f"serving {rig.name}")
    served = rig.dynamixels
    width = max((len(servo.name) for servo in served), default=0)
    for servo in served:
        on = f"  bus {servo.bus}" if len(channels) > 1 else ""
        spec = rig.specs[servo.name]
        print(f"  {servo.name:<{width}}  id {servo.id}  {spec.profile.name}, model {spec.model.name}{on}")
    linked = f"link {link}{'-BUS' * (len(channels) > 1)}" if link else "no link"
    print(f"{linked}; timing {timing}; faults: {faults or 'none'}")
    port = str(link) if link and len(channels) == 1 else next(iter(channels.values())).address
    print("next, in another terminal:", Remedy("scan", port=port))
    if os.name == "nt":
        print("faults cannot be typed here on Windows: give them as --faults; Ctrl-C ends it", flush=True)
    else:
        print("type faults here (drop=0.01, none, power-cycle); Ctrl-C ends it", flush=True)


_to_stdout = partial(print, flush=True)


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _run_command(world: World, text: str) -> str:
    try:
        world.inject(text)
    except UsageError as mistake:
        return f"{mistake.message}: {mistake.hint}"
    return f"faults set: {text}"
