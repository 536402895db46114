"""What a disk answers to SCSI commands.

Read as bytes, since what sg3-utils print of them differs between their versions; and two of the tools of 1.48 are of no
use at all: sg_turs sends no command and says 0, sg_wr_mode refuses all contents.
"""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from iraid_dev.stack.tools import COMMAND_SECONDS_MAX, attempt

# Pages of vital product data.
SERIAL_NUMBER, IDENTIFICATION, EXTENDED_INQUIRY = 0x80, 0x83, 0x86
BLOCK_LIMITS, CHARACTERISTICS, PROVISIONING = 0xB0, 0xB1, 0xB2
# What a designator names, and of what kind it is.
LOGICAL_UNIT, TARGET_PORT = 0, 1
T10, NAA, RELATIVE_PORT, PORT_GROUP, NAME_STRING = 1, 3, 4, 5, 8


def is_not_ready(status: int) -> bool:
    """By the exit status of sg3-utils; from 1.48 on, a port on standby has one of its own."""
    return status in (2, 12)


def is_illegal_request(status: int) -> bool:
    """From 1.48 on, a fault in a parameter list has an exit status of its own."""
    return status in (5, 19)


def raw(disk: str, cdb: str, *options: str | Path) -> tuple[int, str]:
    """A command that is answered late is aborted and fails: with -t 20 the test ends before the session does."""
    return attempt("sg_raw", "--cmdset=1", "-t", "20", *options, disk, *cdb.split())


def ask_whether_ready(disk: str) -> tuple[int, str]:
    """By TEST UNIT READY, which also hears of what has changed for the session."""
    return raw(disk, "00 00 00 00 00 00")


def _bytes_of(*words: str) -> bytes:
    return subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=COMMAND_SECONDS_MAX, check=True
    ).stdout


def inquiry(disk: str) -> bytes:
    """Standard inquiry data."""
    data = _bytes_of("sg_inq", "--raw", disk)
    assert len(data) >= 36, data.hex(" ")
    return data


def tpgs(disk: str) -> int:
    """Who may change the states of target port groups: 0 there are none, 1 the disk alone."""
    return inquiry(disk)[5] >> 4 & 3


def page(disk: str, code: int) -> bytes:
    """A page of vital product data, with its header."""
    data = _bytes_of("sg_vpd", "--raw", f"--page={code:#x}", disk)
    assert len(data) >= 4 and data[1] == code and len(data) == 4 + int.from_bytes(data[2:4], "big"), data.hex(" ")
    return data


def serial_number(disk: str) -> str:
    return page(disk, SERIAL_NUMBER)[4:].decode("ascii").strip()


@dataclass(frozen=True)
class Designator:
    of: int
    kind: int
    value: bytes


def designators(disk: str) -> list[Designator]:
    """What the disk and the port that it is reached by are called."""
    found, rest = [], page(disk, IDENTIFICATION)[4:]
    while rest:
        end = 4 + rest[3]
        assert len(rest) >= end, rest.hex(" ")
        found.append(Designator(rest[1] >> 4 & 3, rest[1] & 15, rest[4:end]))
        rest = rest[end:]
    return found


def naa(disk: str) -> bytes:
    """The name that a copy goes by."""
    (name,) = (d.value for d in designators(disk) if (d.of, d.kind) == (LOGICAL_UNIT, NAA))
    return name


def port_numbers(disk: str) -> tuple[list[int], list[int]]:
    """Relative target ports and target port groups that the page names: one of each, of a pair of gateways."""

    def numbers(kind: int) -> list[int]:
        return [int.from_bytes(d.value, "big") for d in designators(disk) if (d.of, d.kind) == (TARGET_PORT, kind)]

    return numbers(RELATIVE_PORT), numbers(PORT_GROUP)


@dataclass(frozen=True)
class BlockLimits:
    """In blocks."""

    compare_and_write: int
    transfer: int
    optimal_transfer: int
    unmap: int
    unmap_granularity: int
    unmap_alignment_valid: bool


def block_limits(disk: str) -> BlockLimits:
    compare_and_write, transfer, optimal_transfer, unmap, granularity, alignment = struct.unpack_from(
        ">5xB2xII4xI4xII", page(disk, BLOCK_LIMITS)
    )
    return BlockLimits(compare_and_write, transfer, optimal_transfer, unmap, granularity, alignment >> 31 == 1)


@dataclass(frozen=True)
class Provisioning:
    unmaps: bool  # LBPU
    reads_zeros: bool  # LBPRZ
    is_thin: bool


def provisioning(disk: str) -> Provisioning:
    flags, kind = page(disk, PROVISIONING)[5:7]
    return Provisioning(flags & 0x80 != 0, flags >> 2 & 7 == 1, kind & 7 == 2)
