"""A robot's servos on a backend: drives, bus cycles and the safety net, and the order of closing them."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from axbridge.bus.commission import apply_registers
from axbridge.bus.cycle import Cycle, Goal
from axbridge.bus.handshake import Expected, Finding, handshake, require
from axbridge.bus.rows import Mask, Rows
from axbridge.bus.serial import SerialBus
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import BusError, PortError, UsageError, warn
from axbridge.robot.backend import SIMULATION, Backend, call_all
from axbridge.robot.drives.bus_drive import BusDrive
from axbridge.robot.drives.drive import Drive, IdealDrive
from axbridge.robot.drives.known import drive_of
from axbridge.robot.safety.net import NETS, Safety
from axbridge.robot.sensors import Sample, Sensor, SerialImu, SimulatedSensor
from axbridge.state import BusEvent

_log = logging.getLogger(__name__)
_STDERR = 2
_LIMIT_TOLERANCE = math.radians(1)  # no warning if the servo's own limits are less than this within the rig's


class Connection:
    """The parts of a robot that a change of backend replaces."""

    def __init__(self, rig: Rig, backend: Backend, seed: int = 0) -> None:
        self.rig = rig
        self.backend = backend
        self.cycles: dict[str, Cycle] = {}  # by bus that has servos; empty before `open`
        self.events: tuple[BusEvent, ...] = ()  # of the latest `receive`
        self.closed = False
        self._threads: ThreadPoolExecutor | None = None
        self.confirmed: frozenset[str] = frozenset()  # have confirmed the policy at another rate
        self._lost_sensors: set[str] = set()
        self._lost_ports: set[str] = set()  # reasons that were reported
        self._places: dict[str, list[int]] = {}  # rows of the servos of each bus
        self.read_at = -math.inf  # time of the latest samples, s on the backend's clock
        self._safety: Safety | None = None
        self._owner = os.getpid()
        self._closing: list[Callable[[], object]] = [backend.close]  # called by `close`, the last first
        try:
            self.drives: dict[str, Drive] = {config.name: self._drive(config) for config in rig.servos}
            self.on_bus = [drive for drive in self.drives.values() if isinstance(drive, BusDrive)]
            self.sensors: dict[str, Sensor] = self._open_sensors(seed)  # only those of this backend
        except BaseException:
            self.close()
            raise

    def open(self, limits: Callable[[str], tuple[float, float]], tripped: Callable[[frozenset[str]], None]) -> None:
        """Arm the safety net, check every servo, and write the rig's registers. The caller closes after an error."""
        self.arm(limits, tripped)
        self.check_servos()
        failures: list[BusError] = []
        for drive in self.on_bus:
            servo, wanted = drive.config, drive.config.registers
            if drive.shut_down:  # an overload has set Torque Limit to 0: it stays 0 until `recover`
                wanted = {name: value for name, value in wanted.items() if name != drive.protocol.names.torque}
                self.cycles[servo.bus].withhold(servo.name)
                warn(f"servo {servo.name!r} had shut itself down and stays limp: call recover() when the cause is gone")
            failures += apply_registers(drive.bus, drive.id, drive.profile, wanted).values()
        if failures:
            raise failures[0]
        for drive in self.on_bus:
            low, high = drive.reachable(drive.config.soft_limits)
            own, names = drive.narrow(), drive.protocol.names
            self._cycle_of(drive.config.name).narrow(drive.config.name, drive.top_duty)
            by_rig = {names.low, names.high} & drive.config.registers.keys()
            if (own[0] > low + _LIMIT_TOLERANCE or own[1] < high - _LIMIT_TOLERANCE) and not by_rig:
                warn(
                    f"servo {drive.config.name!r} goes from {own[0]:.3f} to {own[1]:.3f} rad by its own limits "
                    f"({names.low}, {names.high}), and its rig says {low:.3f} to {high:.3f}: goals are clipped to both"
                )
        for cycle in self.cycles.values() if self.backend.mode != SIMULATION else ():
            cycle.read_identities()

    def arm(self, limits: Callable[[str], tuple[float, float]], tripped: Callable[[frozenset[str]], None]) -> None:
        """Create the cycles of all buses; arm the safety net. The caller closes after an error.

        Called again after a servo has got another id, it arms the new net before it disarms the old one.
        """
        safety, before = self.rig.safety, self._safety
        servos = [drive.cycle_servo(*limits(drive.config.name), safety) for drive in self.on_bus]
        for name, bus in self.backend.buses.items():
            places = [row for row, drive in enumerate(self.on_bus) if drive.config.bus == name]
            if places:
                self._places[name] = places
                self.cycles[name] = Cycle(bus, [servos[row] for row in places], safety.soft_start_ms / 1000)
        if len(self.cycles) > 1 and self.backend.mode:
            self._threads = ThreadPoolExecutor(len(self.cycles))
            stop = partial(self._threads.shutdown, wait=False)  # a thread may wait for a bus that is closed next
            self._closing.append(stop)
        if self.cycles:
            parked = (drive for drive in self.on_bus if drive.config.name in safety.park)
            self._safety = Safety(
                list(self.cycles.values()),
                safety.on_exit,
                park_pose={d.config.name: d.calibration.goal(safety.park[d.config.name]) for d in parked},
                stale_command_ms=safety.stale_command_ms,
                guard=self.backend.mode != SIMULATION,
                restore=self._end,
                tripped=tripped,
                absent=self._without_reply,
            )
            self._safety.arm()
        if before is not None:
            before.disarm()

    def refuse_closed(self) -> None:
        """Raise UsageError if the robot is closed, or this process was forked from the one that opened it."""
        if self.closed:
            raise UsageError(f"robot {self.rig.name!r} is closed", "open it again with axbridge.open")
        self.refuse_forked()

    def refuse_forked(self) -> None:
        """Raise UsageError if this process was forked from the one that opened the real robot."""
        if self.backend.mode != SIMULATION and os.getpid() != self._owner:
            problem = f"robot {self.rig.name!r} belongs to the process that opened it, not to one forked from it"
            raise UsageError(problem, "command it there, or open it here alone")

    @property
    def refused(self) -> bool:
        """Return whether a signal forbids this thread to command servos; see `BusLock.refused`."""
        return any(cycle.bus.turn.refused for cycle in self.cycles.values())

    def resume(self) -> None:
        """Allow every thread to command the servos again, unless the robot is closed."""
        with NETS.ending:
            for cycle in () if self.closed else self.cycles.values():
                cycle.bus.turn.reserve(None)

    def feed(self) -> None:
        """Feed the safety net before a step computes its goals; see `Safety.feed`."""
        if self._safety is not None:
            self._safety.feed()

    def update_guard(self) -> None:
        """Send the guard process the registers that it must restore after a crash."""
        if self._safety is not None:
            self._safety.update_guard()

    def send(self, goals: Mapping[str, Goal]) -> float:
        """Write the goals; return when the servos received them, s.

        Without goals, return the latest torque-off since the samples, or now.
        """
        self.update_guard()
        received_at = -math.inf
        for cycle in self.cycles.values():
            here = {servo.name: goals[servo.name] for servo in cycle.servos if servo.name in goals}
            if here:
                received_at = max(received_at, cycle.send(here))
        if received_at > -math.inf:
            return received_at
        limp = max((drive.limp_at for drive in self.on_bus), default=received_at)
        return limp if limp > self.read_at else self.backend.clock.now()

    def receive(self) -> tuple[Rows, Mask, dict[str, BusError]]:
        """Read every servo on a bus; return rows in the rig's order, which rows are new, and faults by name."""
        free = all(cycle.bus.turn.only is None for cycle in self.cycles.values())  # else worker threads may not write
        work = self._threads.map if self._threads and free else map
        results = list(work(Cycle.receive, self.cycles.values()))
        faults = {name: fault for result in results for name, fault in result.faults.items()}
        self.events = tuple(event for result in results for event in result.events)
        if len(results) == 1:
            rows, fresh = results[0].rows, results[0].fresh
        else:
            rows, fresh = Rows.unread(len(self.on_bus)), np.zeros(len(self.on_bus), dtype=bool)
            for places, result in zip(self._places.values(), results, strict=True):
                fresh[places] = result.fresh
                for name, column in rows.items():
                    column[places] = result.rows[name]
        self.read_at = self.backend.clock.now()
        self._warn_lost_ports(faults)
        return rows, fresh, faults

    def _warn_lost_ports(self, faults: Mapping[str, BusError]) -> None:
        """Warn of each lost port once, with its servos, and report when all ports are back."""
        if self.closed:
            return  # by another thread, which has switched the motors off
        lost = {fault.message for fault in faults.values() if isinstance(fault, PortError)}
        for message in sorted(lost - self._lost_ports):
            names = [name for name, fault in faults.items() if fault.message == message]
            subject = "all servos" if len(names) == len(self.drives) else ", ".join(names)
            warn(f"{message}: the motors keep their last goals until it is back ({subject})")
        if self._lost_ports and not lost:
            _log.warning("every port is back")
        self._lost_ports = lost and self._lost_ports | lost

    def sense(self, start: float) -> dict[str, Sample | None]:
        """Return the sample of each sensor of the rig by name; None while a sensor is lost or absent."""
        samples: dict[str, Sample | None] = dict.fromkeys(sensor.name for sensor in self.rig.sensors)
        for name, sensor in self.sensors.items():
            samples[name] = sample = sensor.read(start)
            if sample is None and name not in self._lost_sensors:
                self._lost_sensors.add(name)
                warn(f"sensor {name!r} gives no sample: {sensor.trouble}")
            elif sample is not None and name in self._lost_sensors:
                self._lost_sensors.remove(name)
                _log.warning("sensor %r is back", name)
        return samples

    def limp(self) -> dict[str, BusError]:
        """Switch every motor on a bus off now; returns the servos that did not confirm, by name."""
        return {} if self._safety is None else self._safety.limp()

    def release(self) -> dict[str, BusError]:
        """Apply the rig's exit policy now; returns the servos that did not confirm, by name."""
        return {} if self._safety is None else self._safety.release()

    def check_servos(self) -> None:
        """Identify every servo; raise BusError when one is missing or is another model."""
        findings: dict[str, list[Finding]] = {}  # by port, or the bus's name if it has none
        for name, bus in self.backend.buses.items():
            drives, port = [drive for drive in self.on_bus if drive.bus is bus], getattr(bus, "port_name", "")
            here = [Expected(drive.config.name, drive.id, drive.profile, drive.config.registers) for drive in drives]
            findings[port or name] = handshake(bus, here, port=port)
        for port, of_port in findings.items():
            require(of_port, port)

    def recover(self, name: str, *, on: bool) -> float:
        """Clear a servo's shutdown; if `on`, switch it on. Return its position, rad, or NaN; see `BusDrive.wake`."""
        drive, here = self.drives[name], math.nan
        if isinstance(drive, BusDrive):
            here = drive.wake(on=on)
            self._cycle_of(name).recover(name)
            self._place(drive, here)
        return here

    def cap(self, name: str, share: float | None) -> None:
        """Limit a servo to this share of its torque; None removes the limit."""
        cycle = self._cycle_of(name)
        full = cycle.servos_by_name[name].protocol.full_torque
        with contextlib.suppress(PortError):  # reading the states reports it
            cycle.cap(name, None if share is None else max(round(share * full), 1))

    def revive(self, name: str, *, on: bool) -> float:
        """Restore a servo after a loss of power: RAM registers, and torque rising from a tenth, at its position.

        Torque stays off if this program was stopped for longer than the guard waits: the guard has switched it off.
        Return the position, rad; NaN when the servo is off.
        """
        drive, cycle, here = self.drives[name], self._cycle_of(name), math.nan
        assert isinstance(drive, BusDrive)  # cycles have only these
        drive.fill_ram()
        if on:
            cycle.soften([name], cycle.soft_start)
            if time.monotonic() > cycle.expires:
                return here
            here = drive.power(on=True)
        cycle.revived(name)
        self._place(drive, here)
        return here

    def _place(self, drive: BusDrive, here: float) -> None:
        """Make `here`, rad, the start of a servo's next goals; NaN: its latest sample."""
        if not math.isnan(here):
            self._cycle_of(drive.config.name).place(drive.config.name, drive.calibration.goal(here))

    def _cycle_of(self, name: str) -> Cycle:
        return self.cycles[self.drives[name].config.bus]

    def take_restarted(self) -> set[str]:
        """Return the servos that have restarted since the last call; earlier goals are void."""
        names: set[str] = set()
        for cycle in self.cycles.values():
            restarted, cycle.restarted = cycle.restarted, set()
            names |= restarted
        return names

    @property
    def torqueless(self) -> bool:
        """Return whether any servo is `unpowered`, `switched_off` or `withheld`."""
        return any(cycle.torqueless for cycle in self.cycles.values())

    @property
    def unpowered(self) -> frozenset[str]:
        """Return the servos that were without power; they get no goals until `revive`."""
        return frozenset().union(*(cycle.unpowered for cycle in self.cycles.values()))

    @property
    def switched_off(self) -> frozenset[str]:
        """Return servos whose torque another program switched off; they get no goals until it is on, or `recover`."""
        return frozenset().union(*(cycle.switched_off for cycle in self.cycles.values()))

    @property
    def withheld(self) -> frozenset[str]:
        """Return servos that get no goals until `recover`: they are shut down, or were switched off at a limit."""
        return frozenset(name for cycle in self.cycles.values() for name in cycle.withheld)

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Return by bus: cycle rate and times, and for real buses lost, late and damaged packets by id; plain data."""
        return {
            name: {
                "cycle": cycle.times.as_dict(),
                "line": stats.as_dict() if (stats := getattr(cycle.bus, "stats", None)) else None,
            }
            for name, cycle in self.cycles.items()
        }

    def soften(self, names: list[str], seconds: float) -> None:
        """Raise the torque limit of these servos from a tenth to full within `seconds`."""
        for cycle in self.cycles.values():
            here = [servo.name for servo in cycle.servos if servo.name in names]
            if here:
                cycle.soften(here, seconds)

    def close(self) -> None:
        """Switch every motor off, restore EEPROM registers, release ports and worlds; may be called twice.

        No other thread can command a servo from now on. In a forked child this does nothing: its parent owns the ports.
        """
        try:
            self._close()
        finally:  # after an exception, as from a signal, the motors go off before it is raised
            self._close()

    def _close(self) -> None:
        """Close, or continue where an exception has interrupted closing."""
        if os.getpid() != self._owner or not self._closing:
            return
        self.closed = True
        with NETS.ending:
            for cycle in self.cycles.values():
                cycle.bus.turn.reserve(threading.get_ident())
        if self._safety is not None:  # first: motors go off while the ports are open
            self._safety.__exit__()
            self._restore()
        call_all(self._closing)
        self._closing.clear()

    def _end(self) -> None:
        """Mark as closed and restore EEPROM when the program ends without `close`."""
        self.closed = True
        self._restore()

    def _drive(self, config: ServoConfig) -> Drive:
        simulated = self.backend.simulated
        if config.drive == "dynamixel":
            return drive_of(self.rig.specs[config.name], self.backend.buses[config.bus])
        assert simulated is not None  # `open_real` refuses ideal joints
        return IdealDrive(config, simulated.ideal[config.name])

    def _open_sensors(self, seed: int) -> dict[str, Sensor]:
        """Return the sensors of this backend by name: in the simulator all, on a real robot those with a port."""
        world = self.backend.simulated
        sensors: dict[str, Sensor] = {}
        for config in self.rig.sensors:
            if world is not None and world.engine is not None and world.engine.poses():  # it has links
                sensors[config.name] = SimulatedSensor(self.rig, config, world.engine, world.now, seed)
            elif world is None and config.port is not None:
                sensors[config.name] = sensor = SerialImu(config.port, config.baud, self.backend.clock)
                self._closing.append(sensor.close)
        return sensors

    def _without_reply(self) -> frozenset[str]:
        """Return servos that have never replied, so they were never switched on, and those of `confirmed`."""
        lines = ((drive, drive.bus.stats) for drive in self.on_bus if isinstance(drive.bus, SerialBus))
        return self.confirmed.union(drive.config.name for drive, stats in lines if not stats.of(drive.id).has_replied)

    def _restore(self) -> None:
        """Restore changed EEPROM registers; print failures with the commands that repair them."""
        interrupted: BaseException | None = None
        withheld = self.withheld
        for drive in self.on_bus:
            for _ in range(2):
                try:
                    drive.restore(holding=self.rig.safety.on_exit == "hold")
                    if drive.config.name not in withheld:
                        drive.restore_torque_limit()
                except BusError as failure:
                    with contextlib.suppress(OSError):  # print must not be used in a signal handler
                        os.write(_STDERR, f"axbridge: {failure}\n".encode(errors="replace"))
                except KeyboardInterrupt as again:  # a further Ctrl-C is raised after the servos are restored
                    interrupted = again
                    continue
                break
        if interrupted is not None:
            raise interrupted
