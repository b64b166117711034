"""The contract of every `Bus`. It also drops some transactions on purpose, to test the repetitions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import Any

from axbridge.bus.base import Bus, Reply
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.config.registers import Instruction
from axbridge.errors import AxBridgeError, BusTimeout, PortError, UsageError


def kept(module: Mapping[str, Any], takes: tuple[str, ...], run: Callable[[Callable[..., None]], None]) -> list[str]:
    """Run each promise of a module, and return their names; a promise is a function with exactly these parameters.

    `run` creates the object under test and calls the promise with it. A broken promise raises an AssertionError.
    """
    names = []
    for check in [function for function in module.values() if inspect.isfunction(function)]:
        if tuple(inspect.signature(check).parameters) != takes:
            continue
        name = check.__name__.removeprefix("_").replace("_", " ")
        try:
            run(check)
        except AssertionError as broken:
            raise AssertionError(f"{name}: {broken}") from broken
        except AxBridgeError as failure:
            raise AssertionError(f"{name}: unexpected {type(failure).__name__}: {failure.message}") from failure
        names.append(name)
    return names


def check_bus(make_bus: Callable[[], Bus], *, id: int = 1, absent: int = 252) -> list[str]:
    """Check every promise of the bus contract, each on a bus of its own.

    Args:
        make_bus: Opens the bus; called for each promise, after which the bus is closed.
        id: Id of a present servo.
        absent: An id that no servo has.

    Returns:
        The names of the promises kept.

    Raises:
        AssertionError: a promise was broken; the message has its name and the observed behaviour.
    """

    def run(check: Callable[[Bus, int, int], None]) -> None:
        with closing(make_bus()) as bus:
            for other in (absent, BROADCAST):  # all in the servo's protocol
                bus.set_protocol(other, bus.protocol(id))
            check(bus, id, absent)

    return kept(globals(), ("bus", "id", "absent"), run)


def _spare(bus: Bus, id: int) -> int:
    """Return the address of a register that may be 0 or 1 and moves nothing: LED, or Feetech's acceleration."""
    return bus.protocol(id).torque_enable + 1


def _a_servo_that_is_there_answers_a_ping(bus: Bus, id: int, absent: int) -> None:
    reply = bus.ping(id)
    assert len(reply.data) == bus.protocol(id).ping_length, f"a ping answers with {reply.data!r}"


def _a_read_returns_exactly_the_bytes_asked_for(bus: Bus, id: int, absent: int) -> None:
    assert bus.read(id, bus.protocol(id).id_place, 1).data == bytes((id,)), "its register is the id"
    for length in (1, 2, 3, 8, 20):
        data = bus.read(id, 0, length).data
        assert len(data) == length, f"{length} bytes asked, {len(data)} returned"
    usual = bus.protocol(id).usual
    assert len(bus.read(id, *usual).data) == usual[1]


def _what_is_written_is_read_back(bus: Bus, id: int, absent: int) -> None:
    before = bus.read(id, _spare(bus, id), 1).data
    for value in (b"\x01", b"\x00", before):
        assert isinstance(bus.write(id, _spare(bus, id), value), Reply), "an answered write returns its reply"
        assert bus.read(id, _spare(bus, id), 1).data == value, f"wrote {value!r}"


def _a_refused_write_is_a_reply_with_its_flag(bus: Bus, id: int, absent: int) -> None:
    refused = bus.protocol(id).refused
    if not refused(0xFF):
        return  # its status packets have no error bits of an instruction
    before = bus.read(id, _spare(bus, id), 1).data
    reply = bus.write(id, _spare(bus, id), b"\x02")
    assert reply is not None, "the write was answered"
    assert refused(reply.error), f"LED = 2 is out of range, error was 0x{reply.error:02x}"
    assert bus.read(id, _spare(bus, id), 1).data == before, "a refused write changes nothing"


def _no_servo_answers_a_broadcast(bus: Bus, id: int, absent: int) -> None:
    before = bus.read(id, _spare(bus, id), 1).data
    assert bus.write(BROADCAST, _spare(bus, id), b"\x01") is None, "a broadcast write returns nothing"
    assert bus.read(id, _spare(bus, id), 1).data == b"\x01", "the servo has taken it"
    bus.sync_write(_spare(bus, id), {id: before, absent: b"\x01"})
    assert bus.read(id, _spare(bus, id), 1).data == before, "the servo has taken its part of the sync write"


def _a_registered_write_waits_for_its_action(bus: Bus, id: int, absent: int) -> None:
    before = bus.read(id, _spare(bus, id), 1).data
    other = b"\x00" if before == b"\x01" else b"\x01"
    bus.reg_write(id, _spare(bus, id), other)
    assert bus.read(id, _spare(bus, id), 1).data == before, "nothing happens before the action"
    bus.action()
    assert bus.read(id, _spare(bus, id), 1).data == other, "the action has carried it out"
    bus.write(id, _spare(bus, id), before)


class _Losses:
    """Drops the next transactions of a bus by `plan`: the instruction ("question") or the status ("answer")."""

    def __init__(self, bus: Bus, *plan: str) -> None:
        self._plan = list(plan)
        self._inside = False
        self.transactions = self.writes = 0
        self._find = bus.protocol(BROADCAST).decoder().feed
        for name in ("_transfer", "_read_once"):  # every transaction uses one of them
            setattr(bus, name, self._losing(getattr(bus, name)))

    def _losing(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        def lossy(*question: Any) -> Any:
            if self._inside:
                return ask(*question)
            id_: int = question[0] if isinstance(question[0], int) else question[1]
            self.transactions += 1
            if isinstance(question[0], bytes):
                self.writes += self._find(question[0])[0].code == Instruction.WRITE
            outcome = self._plan.pop(0) if self._plan else "ok"
            if outcome == "question":
                raise BusTimeout(id_)
            self._inside = True
            try:
                answer = ask(*question)
            finally:
                self._inside = False
            if outcome == "answer":
                raise BusTimeout(id_)
            return answer

        return lossy


def _a_lost_instruction_or_status_is_repeated(bus: Bus, id: int, absent: int) -> None:
    for plan in (["question"], ["answer"], ["question", "answer"]):
        _Losses(bus, *plan)
        bus.ping(id)
        _Losses(bus, *plan)
        assert bus.read(id, bus.protocol(id).id_place, 1).data == bytes((id,)), f"after the loss of {plan}"


def _a_write_is_sent_again_only_when_it_has_not_arrived(bus: Bus, id: int, absent: int) -> None:
    before = bus.read(id, _spare(bus, id), 1).data
    other = b"\x00" if before == b"\x01" else b"\x01"
    for value, plan, sent in ((other, ["answer", "question"], 1), (before, ["question"], 2)):
        losses = _Losses(bus, *plan)
        assert isinstance(bus.write(id, _spare(bus, id), value), Reply), (
            "a write confirmed by reading back returns a reply"
        )
        assert losses.writes == sent, f"{losses.writes} packets sent after the loss of {plan}, not {sent}"
        assert bus.read(id, _spare(bus, id), 1).data == value, f"wrote {value!r}"


def _each_request_of_read_many_is_sent_once(bus: Bus, id: int, absent: int) -> None:
    losses = _Losses(bus)
    (answer,) = bus.read_many([(absent, bus.protocol(id).id_place, 1)])
    assert isinstance(answer, BusTimeout), f"got {answer!r}"
    assert losses.transactions <= 1, f"sent {losses.transactions} times: a control cycle cannot wait"


def _a_missing_servo_is_a_timeout_and_disturbs_no_other(bus: Bus, id: int, absent: int) -> None:
    for _ in range(3):
        try:
            reply = bus.read(absent, *bus.protocol(id).present_position)
        except BusTimeout as error:
            assert error.id == absent, f"the error names servo {error.id}, not {absent}"
        else:
            raise AssertionError(f"servo {absent} is not there, but answered {reply}")
        assert bus.read(id, bus.protocol(id).id_place, 1).data == bytes((id,)), "the next servo is heard all the same"


def _many_reads_come_in_order_with_errors_in_place(bus: Bus, id: int, absent: int) -> None:
    first, second, third = bus.read_many(
        [(id, bus.protocol(id).id_place, 1), (absent, bus.protocol(id).id_place, 1), (id, 0, 2)]
    )
    assert isinstance(first, Reply), f"got {first!r}"
    assert first.data == bytes((id,)), "the first answer"
    assert isinstance(second, BusTimeout), f"got {second!r}"
    assert isinstance(third, Reply), f"got {third!r}"
    assert len(third.data) == 2, "the third answer"


def _samples_are_taken_between_question_and_answer(bus: Bus, id: int, absent: int) -> None:
    last = bus.clock.now()
    for _ in range(5):
        reply = bus.read(id, *bus.protocol(id).usual)
        now = bus.clock.now()
        assert last <= reply.time <= now + 1e-3, f"asked after {last}, sampled at {reply.time}, answered at {now}"
        last = reply.time


def _wrong_use_is_refused_before_the_line_is_touched(bus: Bus, id: int, absent: int) -> None:
    for wrong in (
        lambda: bus.sync_write(_spare(bus, id), {}),
        lambda: bus.sync_write(_spare(bus, id), {id: b"\x01", absent: b"\x01\x02"}),
        lambda: bus.ping(255),
        lambda: bus.ping(-1),
    ):
        try:
            wrong()
        except UsageError:
            continue
        raise AssertionError("wrong use must raise UsageError")
    bus.ping(id)


def _a_closed_bus_stays_closed(bus: Bus, id: int, absent: int) -> None:
    bus.close()
    bus.close()
    with suppress(PortError):
        bus.ping(id)
        raise AssertionError("a closed bus must raise PortError")
