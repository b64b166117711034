"""`axbridge servo`: look at and change the registers of one servo."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from axbridge.cli.app import app, emit_json
from axbridge.cli.options import BaudOption, JsonOption, PortOption
from axbridge.errors import BusError, BusTimeout, CorruptPacket, UsageError
from axbridge.packets import Instruction

if TYPE_CHECKING:
    from axbridge.bus.serial import SerialBus
    from axbridge.config.profile import FirmwareProfile

servo = typer.Typer(no_args_is_help=True, help="Look at and change the registers of one servo.")
app.add_typer(servo, name="servo")

IdArgument = Annotated[int, typer.Argument(metavar="ID", min=0, max=253, help="Bus id of the servo.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@servo.command()
def info(id: IdArgument, port: PortOption = None, baud: BaudOption = 1_000_000, json: JsonOption = False) -> None:
    """Print every register of a servo."""
    from axbridge.bus.commission import read_register

    with _open(port, baud) as bus:
        profile = _profile(bus, id)
        values = {name: read_register(bus, id, register) for name, register in profile.registers.items()}
    if json:
        emit_json({"id": id, "profile": profile.name, "registers": values})
        return
    print(f"servo {id}: {profile.name}, firmware {values['firmware_version']}")
    for name, value in values.items():
        register = profile.registers[name]
        unit = f"  [{register.unit}]" if register.unit else ""
        print(f"{register.address:>4}  {register.area.value:<6} {register.access:<2}  {name:<24} {value:>6}{unit}")


@servo.command()
def read(
    id: IdArgument,
    registers: Annotated[list[str], typer.Argument(metavar="REGISTER…")],
    port: PortOption = None,
    baud: BaudOption = 1_000_000,
    json: JsonOption = False,
) -> None:
    """Print some registers of a servo."""
    from axbridge.bus.commission import read_register

    with _open(port, baud) as bus:
        profile = _profile(bus, id)
        values = {name: read_register(bus, id, profile.register(name)) for name in registers}
    if json:
        emit_json({"id": id, "registers": values})
        return
    for name, value in values.items():
        print(f"{name} {value}")


@servo.command()
def write(
    id: IdArgument,
    register: Annotated[str, typer.Argument(metavar="REGISTER")],
    value: Annotated[int, typer.Argument(metavar="VALUE")],
    port: PortOption = None,
    baud: BaudOption = 1_000_000,
) -> None:
    """Set one register and verify it; an EEPROM cell that already holds the value is not worn."""
    from axbridge.bus.commission import write_register

    if register in {"id", "baud_rate"}:
        other = "set-id" if register == "id" else "set-baud"
        raise UsageError(
            f"{register} is not changed by write", f"use `axbridge servo {other}`, which looks before it does"
        )
    with _open(port, baud) as bus:
        worn = write_register(bus, id, _profile(bus, id), register, value)
    print(f"{register} is {value}" + (f" ({worn} EEPROM bytes written)" if worn else ""))


@servo.command()
def set_id(
    id: IdArgument,
    new: Annotated[int, typer.Argument(metavar="NEW", min=0, max=253)],
    port: PortOption = None,
    baud: BaudOption = 1_000_000,
) -> None:
    """Give a servo another id; refused when somebody answers to that id, or when two answer to the old one."""
    from axbridge.bus.commission import write_register
    from axbridge.bus.handshake import is_shared

    with _open(port, baud) as bus:
        profile = _profile(bus, id)
        if is_shared(bus, id):
            raise BusError(
                f"id {id} answers with damaged packets: two servos with one id, or a bad cable",
                "connect one of them at a time; both would get the new id",
            )
        if id != new:
            _refuse_taken(bus, new)
            write_register(bus, id, profile, "id", new)
    print(f"servo {id} is servo {new} now")


def _refuse_taken(bus: SerialBus, new: int) -> None:
    try:
        bus.ping(new)
    except BusTimeout:
        return
    except CorruptPacket as error:
        raise BusError(f"id {new} is taken, by more than one servo: {error.message}", "choose another id") from error
    raise BusError(f"id {new} is taken: a servo answers to it", "choose another id, or unplug that servo first")


@servo.command()
def set_baud(
    id: IdArgument,
    new: Annotated[int, typer.Argument(metavar="NEW_BAUD")],
    port: PortOption = None,
    baud: BaudOption = 1_000_000,
) -> None:
    """Change the baud rate of a servo, and see that it answers at the new one."""
    from axbridge.bus.commission import read_register
    from axbridge.units import baud_of, baud_register

    with _open(port, baud) as bus:
        profile = _profile(bus, id)
        register = profile.register("baud_rate")
        code = baud_register(new, profile.units_name)
        if code is None:
            raise UsageError(
                f"an {profile.name} cannot make {new} baud",
                "choose 2000000/(n+1): 1000000, 500000, 200000, 115200, 57600, …",
            )
        if read_register(bus, id, register) != code:
            with contextlib.suppress(BusTimeout, CorruptPacket):  # the new rate shows whether it was written
                bus.write(id, register.address, bytes((code,)))
            bus.clock.sleep_until(bus.clock.now() + 0.02)
            bus.set_baud(new)
            try:
                read_register(bus, id, register)
            except BusTimeout as error:
                raise BusTimeout(
                    id, f"it does not answer at {new} baud; `axbridge scan --baud all` finds it"
                ) from error
    made = round(baud_of(code, profile.units_name))
    print(f"servo {id} talks at {new} baud now" + (f" ({made}, to be exact)" if made != new else ""))


@servo.command()
def reset(id: IdArgument, port: PortOption = None, baud: BaudOption = 1_000_000, yes: YesOption = False) -> None:
    """Factory reset: every EEPROM register gets its default, the id becomes 1."""
    if not yes:
        typer.confirm(f"Reset servo {id} to factory settings? Its id becomes 1.", abort=True, err=True)
    with _open(port, baud) as bus:
        _profile(bus, id)
        if id != 1:
            _refuse_taken(bus, 1)
        bus.instruct(id, Instruction.FACTORY_RESET)
    print(f"servo {id} is reset: it has id 1 and its default baud rate now")


@servo.command()
def torque(
    id: IdArgument,
    state: Annotated[str, typer.Argument(metavar="on|off")],
    port: PortOption = None,
    baud: BaudOption = 1_000_000,
) -> None:
    """Switch torque on (holding the present position) or off. It stays on after this program has ended."""
    from axbridge.bus.commission import read_register, write_register

    if state not in {"on", "off"}:
        raise UsageError(f"torque is on or off, not {state!r}")
    with _open(port, baud) as bus:
        profile = _profile(bus, id)
        if state == "on":
            present = read_register(bus, id, profile.register("present_position"))
            write_register(bus, id, profile, "goal_position", present)
        write_register(bus, id, profile, "torque_enable", int(state == "on"))
    print(f"torque of servo {id} is {state}")


def _open(port: str | None, baud: int) -> SerialBus:
    from axbridge.bus.serial import SerialBus

    return SerialBus(port or "auto", baud)


def _profile(bus: SerialBus, id: int) -> FirmwareProfile:
    """Profile by the servo's model number; the AX-12A's, whose common registers all share, when it is unknown."""
    from axbridge.bus.handshake import profile_for
    from axbridge.config.profile import FirmwareProfile

    data = bus.read(id, 0, 17).data
    if len(data) == 17 and data[16] < 2:
        bus.silent |= {id}
    return profile_for(int.from_bytes(data[:2], "little"), data[2]) or FirmwareProfile.load("ax-12a")
