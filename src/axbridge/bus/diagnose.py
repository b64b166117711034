"""Measurements of a line and its faults: the findings of `axbridge doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, NamedTuple

from axbridge.bus.base import Reply
from axbridge.bus.commission import read_register
from axbridge.bus.cycle import Cycle, CycleServo
from axbridge.bus.handshake import Expected, Finding, inspect, is_unknown, measure_latency, name_of, profile_for
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.scan import all_bauds, scan, scan_bauds
from axbridge.bus.serial import SerialBus
from axbridge.bus.stats import goals_time, percentile, wire_time
from axbridge.config.profile import HOT_MARGIN, FirmwareProfile
from axbridge.config.registers import PRESENT
from axbridge.errors import BusTimeout, CorruptPacket, Remedy, ServoFault, plural
from axbridge.units import VOLT_PER_COUNT

_CYCLES = 60
_FAST_ENOUGH = 2e-3  # s: with few servos, most of a cycle is the computer's own time
_ACCEPTABLE_LOSS = 1e-3
_PATIENCE = 0.02  # s: a reply that a busy host delays is not lost
_TOLERATED = 1  # lost reply: a busy computer may cause it
_FEW = 2  # servos with losses: their own cables are suspect; with more servos and similar losses the line is
_MANY = 4  # from this number on, servos are not named singly


class Diagnosis(NamedTuple):
    """Measurements of a line, as plain data, and its faults."""

    facts: dict[str, Any]
    findings: list[Finding]


def diagnose(
    bus: SerialBus,
    expected: Sequence[Expected] = (),
    packets: int = 1000,
    progress: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """Examine an open bus; no servo is moved or written to."""
    facts: dict[str, Any] = {"port": bus.port_name, "baud": bus.baud}
    findings = check_adapter(bus, facts)
    progress("looking for servos")
    servos = scan(bus)
    facts["servos"] = [vars(servo) for servo in servos]
    if not servos:
        findings.append(no_answer(bus, progress))
        return Diagnosis(facts, findings)
    listed = [servo.id for servo in servos]
    twice = sorted({id_ for id_ in listed if listed.count(id_) > 1})
    for id_ in twice:
        problem = "is there twice: one servo speaks Protocol 1.0, one 2.0"
        fix = Remedy("servo set-id", id_, "NEW", says="connect one of them alone and give it another id: {}")
        findings.append(Finding(f"id {id_}", problem, fix, True, "collision", id_))
    guesses = (  # an unknown model gets the usual profile, and `inspect` reports it
        profile_for(servo.model, servo.firmware) or FirmwareProfile.load(PROTOCOLS[servo.protocol].usual_profile)
        for servo in servos
    )
    known = expected or [Expected("", id_, profile) for id_, profile in zip(listed, guesses, strict=True)]
    known = [servo for servo in known if servo.id not in twice]
    readable = {servo.id: servo for servo in servos if not servo.mute}
    ids = [
        servo.id for servo in known
        if servo.id in readable and not is_unknown(servo.protocol, readable[servo.id].model, servo.profile)
    ]  # fmt: skip
    progress("asking each servo")
    for servo in known:
        findings += inspect(bus, servo, bus.port_name)
        if servo.id in ids:
            findings += check_condition(bus, servo)
    if unexpected := sorted({servo.id for servo in servos} - {servo.id for servo in known}):
        subject, action = f"ids {', '.join(map(str, unexpected))}", "add them to the rig, or unplug them"
        findings.append(Finding(subject, "answer, but are not in the rig", action, False, "extra"))
    findings += mixed_firmware(bus, [servo for servo in known if servo.id in ids])
    slow = [id_ for id_ in ids if bus.protocol(id_).group_reads and not bus.has_best_group_read(id_)]
    facts["no_fast_sync_read"] = slow
    if ids:
        facts["latency_ms"] = 1e3 * measure_latency(bus, ids)
        progress(f"reading {packets} packets")
        findings += check_loss(bus, {servo.id: name_of(servo) for servo in known if servo.id in ids}, packets, facts)
        progress("measuring the rate")
        findings += check_rate(bus, ids, facts)
    return Diagnosis(facts, findings)


def check_adapter(bus: SerialBus, facts: dict[str, Any]) -> list[Finding]:
    """Check adapter and latency timer; add measurements to `facts`, as the functions below do."""
    adapter = bus.port.adapter
    facts |= {
        "adapter": adapter.kind,
        "latency_timer_ms": adapter.latency_timer,
        "low_latency": bus.port.low_latency,
        "echo": bus.echo,
    }
    findings = []
    if adapter.latency_timer is not None and adapter.latency_timer > 1:
        fix = (
            Remedy("doctor", udev_rule=True, says=f"echo 1 | sudo tee {adapter.latency_file}  (permanently: {{}})")
            if adapter.latency_file
            else "set the latency timer to 1 ms in the driver's settings"
        )
        problem = f"the adapter holds answers back for up to {adapter.latency_timer} ms"
        findings.append(Finding(bus.port_name, problem, fix, False, "latency"))
    return findings


def no_answer(bus: SerialBus, progress: Callable[[str], None]) -> Finding:
    """Return the finding that no servo answers, or that servos answer at another baud rate."""
    progress("no servo answers: trying other baud rates")
    others = scan_bauds(
        bus, [baud for baud in all_bauds() if baud != bus.baud], range(31)
    )  # ids of a kit or a new servo
    for baud, servos in others.items():
        if servos:
            listed = ", ".join(str(servo.id) for servo in servos)
            fix = Remedy("servo set-baud", servos[0].id, bus.baud, port=bus.port_name, baud=baud)
            problem = f"no servo answers at {bus.baud} baud, but ids {listed} at {baud}"
            return Finding(bus.port_name, problem, fix, True, "baud")
    says = "check servo supply (LEDs blink at power-on), data and ground wires, and that the adapter is on TTL; then {}"
    fix = Remedy("scan", port=bus.port_name, baud="all", says=says)
    return Finding(bus.port_name, "no servo answers at any baud rate", fix, True, "missing")


def mixed_firmware(bus: SerialBus, servos: Sequence[Expected]) -> Iterator[Finding]:
    """Yield models of which servos have different firmware, if they have a minor version: LeRobot refuses them."""
    versions: dict[str, dict[str, list[str]]] = {}
    for servo in servos:
        if "firmware_minor" in servo.profile.registers:
            with suppress(BusTimeout, CorruptPacket, ServoFault):
                major, minor = (_register(bus, servo, name) for name in ("firmware_version", "firmware_minor"))
                versions.setdefault(servo.profile.name, {}).setdefault(f"{major}.{minor}", []).append(str(servo.id))
    fix = "bring all to the newest with Feetech's FD program: LeRobot refuses a line with several"
    for model, by in versions.items():
        if len(by) > 1:
            listed = "; ".join(f"{version}: ids {', '.join(ids)}" for version, ids in sorted(by.items()))
            yield Finding(f"{model} servos", f"have several firmwares, {listed}", fix, False, "firmware")


def check_condition(bus: SerialBus, servo: Expected) -> Iterator[Finding]:
    """Yield findings about supply, temperature and error byte; `inspect` reports an alarm register."""
    protocol, names, label, id_ = servo.protocol, servo.protocol.names, name_of(servo), servo.id
    port = bus.port_name
    read = (names.voltage, "min_voltage_limit", "max_voltage_limit", "present_temperature", "temperature_limit")
    try:
        counts, low, high, temperature, hottest = (_register(bus, servo, name) for name in read)
        if protocol.alarm is None:
            answer, torque = bus.read(id_, *protocol.mode), _register(bus, servo, names.torque)
            open_lock = protocol.lock is not None and _register(bus, servo, "lock") == 0
    except (BusTimeout, CorruptPacket, ServoFault):
        return
    nominal, voltage = servo.profile.electrics.nominal_voltage, counts * VOLT_PER_COUNT
    if counts > high:
        problem = f"has {voltage:.1f} V at its terminals, and takes {high * VOLT_PER_COUNT:.1f} V at most"
        yield Finding(label, problem, "feed it with less: its motor burns", False, "voltage", id_)
    elif counts < low or voltage < 0.75 * nominal:
        problem = f"has {voltage:.1f} V at its terminals ({nominal:.1f} V nominal)"
        yield Finding(label, problem, "charge the battery, or feed the chain from both ends", False, "voltage", id_)
    if temperature >= hottest - HOT_MARGIN:
        near = "beyond" if temperature > hottest else "close to"
        problem = f"is {temperature} °C, {near} its limit of {hottest} °C"
        yield Finding(label, problem, "let it rest, and look what it pushes against", False, "temperature", id_)
    if protocol.alarm is not None:
        return
    if open_lock:
        problem = "has an open EEPROM (lock 0): a write by mistake is permanent"
        yield Finding(label, problem, Remedy("servo write", id_, "lock", 1, port=port), False, "lock", id_)
    wake = protocol.revival(id_, port=port)
    if alarms := protocol.alarms(answer.error & protocol.fault_mask):
        fix = wake.within("remove the cause, then {}")
        yield Finding(label, f"reports {alarms.describe()}", fix, False, "alarm", id_)
    if "operating_mode" not in servo.profile.registers and protocol.endless_goal(answer.data) is not None:
        fix = Remedy("servo write", id_, names.high, servo.profile.units.counts, port=port)
        yield Finding(label, "is a wheel: both angle limits are 0, so it takes no goal", fix, False, "wheel", id_)
    if torque == 0:
        yield Finding(label, "has torque limit 0: it shut itself down", wake, False, "shutdown", id_)


def _register(bus: SerialBus, servo: Expected, name: str) -> int:
    return read_register(bus, servo.id, servo.profile.register(name))


def check_loss(bus: SerialBus, servos: Mapping[int, str], packets: int, facts: dict[str, Any]) -> list[Finding]:
    """Read constant registers of the servos in rotation, and count the replies that are missing or wrong."""
    ids = list(servos)
    lost: dict[int, int] = {}
    requests = dict.fromkeys(ids, 0)
    known: dict[int, bytes] = {}
    wrong = 0
    usual, bus.latency = bus.latency, max(bus.latency, _PATIENCE)
    try:
        for turn in range(packets):
            id_ = ids[turn % len(ids)]
            requests[id_] += 1
            answer = bus.read_many([(id_, 0, PRESENT.size)])[0]  # as many bytes as a control cycle reads
            if not isinstance(answer, Reply):
                lost[id_] = lost.get(id_, 0) + 1
            elif known.setdefault(id_, answer.data) != answer.data:
                wrong += 1
    finally:
        bus.latency = usual
    facts["loss"] = {id_: lost.get(id_, 0) / count for id_, count in requests.items() if count}
    facts["wrong"] = wrong
    findings = []
    if wrong:
        problem = f"{wrong} of {packets} answers were intact, and said something else than before"
        fix = "look for two servos with one id: connect them one at a time; then please report it"
        findings.append(Finding(bus.port_name, problem, fix, True, "wrong"))
    total, worst = sum(lost.values()), max(lost, key=lambda id_: lost[id_], default=-1)
    if total / packets > _ACCEPTABLE_LOSS and len(lost) > _FEW and lost[worst] <= total / 2:
        problem = (
            f"lost {total} of {packets} answers ({total / packets:.1%}), of {len(lost)} of {len(ids)} servos; "
            f"most of {servos[worst]}, {lost[worst]} of {requests[worst]}"
        )
        fix = "check the common ground, the supply, and the cable to the first servo; shorter chains lose less"
        return [*findings, Finding(bus.port_name, problem, fix, False, "loss")]
    fix = "check its cable and the supply"
    return findings + [
        Finding(servos[id_], f"lost {count} of {requests[id_]} answers", fix, False, "loss", id_)
        for id_, count in lost.items()
        if count > _TOLERATED and count / requests[id_] > _ACCEPTABLE_LOSS
    ]


def check_rate(bus: SerialBus, ids: Sequence[int], facts: dict[str, Any]) -> list[Finding]:
    """Estimate the rate of full cycles: reads are measured, goals computed by packet length, as no servo may move."""
    cycle = Cycle(bus, [CycleServo(str(id_), id_, protocol=bus.protocol(id_)) for id_ in ids])
    protocols = [bus.protocol(id_) for id_ in ids]
    goals = goals_time(protocols, bus.baud)
    results = [cycle.receive() for _ in range(_CYCLES)]
    spent = [result.spent + goals for result in results if not result.faults]
    if not spent:
        return []  # `check_loss` reports it
    limit = wire_time(protocols, bus.baud)
    usual = percentile(spent, 0.5)
    facts |= {
        "rate_hz": 1 / usual,
        "cycle_p50_ms": 1e3 * usual,
        "cycle_p99_ms": 1e3 * percentile(spent, 0.99),
        "wire_limit_hz": 1 / limit,
        "wire_share": limit / usual,
    }
    if limit / usual < 0.5 and usual > _FAST_ENOUGH and bus.port.adapter.kind != "remote":
        problem = f"{1 / usual:.0f} Hz for {plural(len(ids), 'servo')}, where the line allows {1 / limit:.0f} Hz"
        fix = "return delay 0 and latency timer 1 ms (see the other findings); a USB hub or a busy host costs, too"
        return [Finding(bus.port_name, problem, fix, False, "rate")]
    return []


def grouped(findings: Iterable[Finding]) -> list[tuple[str, str, str]]:
    """Return rows of subject, problem and repair command; a problem of several servos is one row."""
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        fix = finding.fix if finding.id is None else finding.fix.replace(f" {finding.id} ", " $id ")
        alike.setdefault((finding.problem, fix), []).append(finding)
    rows = []
    for (problem, fix), group in alike.items():
        ids = [finding.id for finding in group if finding.id is not None]
        subject = ", ".join(finding.subject for finding in group) if len(group) < _MANY else f"servos {ranges(ids)}"
        loop = f"for id in {' '.join(map(str, ids))}; do {fix}; done"
        several = len(group) > 1
        repeated = several and "$id" in fix and fix.startswith("axbridge ")
        rows.append((subject, "each " * several + problem, loop if repeated else group[0].fix))
    return rows


def ranges(ids: Sequence[int]) -> str:
    """Return ascending ids as text, such as ``1-18, 20``."""
    runs = [[id_ for _, id_ in run] for _, run in groupby(enumerate(ids), lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
