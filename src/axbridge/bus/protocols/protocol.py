"""Both protocols as whoever asks sees them: how a question is framed, which answer is its own, what an error means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from axbridge.bus.protocols import v1, v2
from axbridge.bus.protocols.answers import Search, find_answer, find_answer_2
from axbridge.errors import ErrorFlag, StatusError


@dataclass(frozen=True)
class Protocol:
    """One of them. Instruction codes are the same in both (`axbridge.config.instructions`).

    Attributes:
        version: 1 or 2.
        ping_length: Parameter bytes of the answer to a PING.
        encode: Instruction packet of an id, a code and parameters.
        read_params: Parameters of a READ of an address and a length.
        write_params: Parameters of a WRITE of an address and bytes.
        sync_write_params: Parameters of a SYNC_WRITE at an address of bytes by id.
        longest: Bytes on the line of an answer with so many parameter bytes, at most.
        find_answer: See `axbridge.bus.protocols.answers.find_answer`.
        error: What an error byte says; has `describe`.
        garbled: Whether it says that the question came damaged: then it is no answer.
    """

    version: int
    ping_length: int
    encode: Callable[[int, int, bytes], bytes]
    read_params: Callable[[int, int], bytes]
    write_params: Callable[[int, bytes], bytes]
    sync_write_params: Callable[[int, Mapping[int, bytes]], bytes]
    longest: Callable[[int], int]
    find_answer: Callable[..., Search]
    error: Callable[[int], ErrorFlag | StatusError]
    garbled: Callable[[int], bool]


_ONE = Protocol(
    version=1,
    ping_length=0,
    encode=v1.encode,
    read_params=v1.read_params,
    write_params=v1.write_params,
    sync_write_params=v1.sync_write_params,
    longest=lambda length: length + v1.OVERHEAD,
    find_answer=find_answer,
    error=ErrorFlag,
    garbled=lambda error: bool(error & 0x10),
)
_TWO = Protocol(
    version=2,
    ping_length=3,
    encode=v2.encode,
    read_params=v2.read_params,
    write_params=v2.write_params,
    sync_write_params=v2.sync_write_params,
    longest=lambda length: length + length // 3 + v2.OVERHEAD + 1,  # the error byte; stuffing
    find_answer=find_answer_2,
    error=StatusError,
    garbled=lambda error: error & v2.NUMBER == StatusError.CRC,
)
PROTOCOLS = {1: _ONE, 2: _TWO}
