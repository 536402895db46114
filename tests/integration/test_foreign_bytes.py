"""Bytes of a LUN are looked at by a program that can harm nobody (iraid-look): what they make of it costs one answer, and
what could not be looked at is not overwritten.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import re
import signal
import struct
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_target import ILLEGAL, Command, FakeTarget, Reply

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, RpcError, call, wait_until

pytestmark = [pytest.mark.sanitized_alone, pytest.mark.timeout(90)]
BUILD = Path(os.environ.get("IRAID_BUILD_DIR", Path(__file__).resolve().parents[2] / "build"))
LOOK = BUILD / "handler/adapters/iraid-look"
LIMIT_SECONDS = 10  # of a look and all around it
SECTOR = 512
NOBODY = 65534

# --- blocks that can't be ---


@pytest.mark.parametrize("sixteen", [False, True], ids=["READ CAPACITY(10)", "READ CAPACITY(16)"])
def test_blocks_of_no_use_are_an_error_and_no_more(gateway: Gateway, sixteen: bool) -> None:
    """examine and discover say so, and the program that is asked lives on."""
    for block_bytes, blocks in itertools.product(
        (0, 1, 8, 16, 511, 513, 65536, 1 << 24, 1 << 31, (1 << 32) - 1), (0, 1, 0xFFFFFFFE, (1 << 64) - 1)
    ):
        with FakeTarget() as target:
            ten = Reply(data=struct.pack(">II", blocks & 0xFFFFFFFF, block_bytes))
            whole = Reply(data=struct.pack(">QI20x", blocks, block_bytes)) if sixteen else ILLEGAL
            target.rules.append(lambda command, answers={0x9E: whole, 0x25: ten}: answers.get(command.opcode))  # type: ignore[misc]
            with pytest.raises(RpcError) as refused:
                call(gateway.socket, "examine", member=target.member)
            assert refused.value.kind == "unfit" and re.search(r"blocks of \d+ bytes|is invalid", str(refused.value))
            ((found,),) = [one["luns"] for one in call(gateway.socket, "discover", portal=target.portal)["targets"]]
            assert re.search(r"blocks of \d+ bytes|is invalid", found["error"])
            assert target.data_commands() == []


# --- a partition table that wants 4 GiB ---

LUN_BYTES = 8 << 30
ENTRIES, ENTRY_BYTES = 33_000_000, 128
CRC_OF_ENTRIES = 0x84869BE8  # of so many zeros


def greedy_table() -> bytes:
    """The first sectors of a disk: a protective MBR and a sound GPT header."""
    last = LUN_BYTES // SECTOR - 1
    first_usable = 2 + ENTRIES * ENTRY_BYTES // SECTOR + 1
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xEE, b"\xff\xff\xff", 1, last)
    protective = bytes(446) + entry + bytes(48) + b"\x55\xaa"

    def header(checksum: int) -> bytes:
        return struct.pack(
            "<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, checksum, 0, 1, last, first_usable, last - 1, bytes(range(16)), 2,
            ENTRIES, ENTRY_BYTES, CRC_OF_ENTRIES,
        )  # fmt: skip

    return protective + header(zlib.crc32(header(0))).ljust(SECTOR, b"\0")


def large(target: FakeTarget) -> Callable[[Command], Reply | None]:
    """A rule: a LUN of 8 GiB of which only the start is kept."""

    def rule(command: Command) -> Reply | None:
        if command.opcode == 0x9E:
            return Reply(data=struct.pack(">QI20x", LUN_BYTES // SECTOR - 1, SECTOR))
        if not command.is_read:
            return None
        part = bytes(target.disk[command.offset : command.offset + command.expected_bytes])
        return Reply(data=part.ljust(command.expected_bytes, b"\0"))

    return rule


def memory_bytes(gateway: Gateway) -> int:
    assert gateway.engine is not None
    status = Path(f"/proc/{gateway.engine.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def examine(gateway: Gateway, member: str) -> Any:
    begun = time.monotonic()
    signature = call(gateway.socket, "examine", member=member)["signature"]
    assert time.monotonic() - begun < LIMIT_SECONDS
    return signature


def test_a_partition_table_of_33_million_entries_is_content_that_nobody_knows(gateway: Gateway) -> None:
    with FakeTarget(size_bytes=4 << 20) as target:
        target.rules.append(large(target))
        assert examine(gateway, target.member) is None
        before = memory_bytes(gateway)
        target.disk[: 2 * SECTOR] = greedy_table()
        assert examine(gateway, target.member).startswith("unknown content (iraid-look ")
        assert memory_bytes(gateway) - before < 32 << 20


# --- a page of the copy that the kernel still uses ---


@contextmanager
def held_copy(gateway: Gateway, target: FakeTarget) -> Iterator[list[mmap.mmap]]:
    """While blocks are read, the copy that iraid-look gets is mapped here.  Sealing it against all writers is refused then,
    as it is when the kernel has a page of it in hand: memory is being compacted, say."""
    held: list[mmap.mmap] = []

    def hold(command: Command) -> Reply | None:
        assert gateway.engine is not None
        if held or not command.is_read:
            return None
        for descriptor in Path(f"/proc/{gateway.engine.pid}/fd").iterdir():
            if "memfd:iraid-signature" in os.readlink(descriptor):
                with descriptor.open("r+b") as copy:
                    held.append(mmap.mmap(copy.fileno(), SECTOR))
        return None

    target.rules.append(hold)
    try:
        yield held
    finally:
        for one in held:
            one.close()


def test_a_page_that_the_kernel_has_in_hand_fails_no_look(gateway: Gateway) -> None:
    with FakeTarget(size_bytes=4 << 20) as target, held_copy(gateway, target) as held:
        assert examine(gateway, target.member) is None
        assert len(held) == 1


def test_nobody_can_write_to_the_copy_that_is_looked_at(
    make_gateway: Callable[[], Gateway], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that succeeds in that says so."""
    looks_with(
        tmp_path / "looks",
        "for fd in /proc/self/fd/[0-9]*; do case $(readlink $fd) in *iraid-signature*)"
        " (printf x >>$fd || printf x 1<>$fd) 2>/dev/null && exit 7; truncate -s 1T $fd 2>/dev/null && exit 8;;"
        " esac; done; echo 'found: nothing'",
        monkeypatch,
    )
    gateway = make_gateway()
    gateway.start()
    with FakeTarget(size_bytes=4 << 20) as target:
        assert examine(gateway, target.member) == "nothing"


# --- a look that ends badly ---

HANGS = "took longer than 5 s"
BAD_LOOKS = {
    "hangs": ("exec sleep 1000", HANGS),
    "hangs without its pipe": ("exec >&-; exec sleep 1000", HANGS),
    "never ends to talk": ("while :; do echo found: nothing; done", HANGS),
    "crashes": ("kill -SEGV $$", "was ended by signal 11"),
    "crashes in its answer": ("printf 'found: '; kill -ABRT $$", "was ended by signal 6"),
    "says nothing": ("exit 0", "ended with status 0"),
    "gives up": ("exit 5", "ended with status 5"),
    "says something else": ("echo nothing", "ended with status 0"),
    "says what no terminal may see": (r"printf 'found: \033[2J\n'", "ended with status 0"),
    "says two lines": (r"printf 'found: \nfound: \n'", "ended with status 0"),
}


def looks_with(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that is started now has this in iraid-look's place."""
    folder.mkdir()
    (folder / "iraid-look").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "iraid-look").chmod(0o755)
    monkeypatch.setenv("IRAID_LIBEXEC_DIR", str(folder))


def children(gateway: Gateway) -> str:
    """Of all its threads; one may end meanwhile."""
    assert gateway.engine is not None
    found = ""
    for path in Path(f"/proc/{gateway.engine.pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += path.read_text()
    return found


@pytest.mark.parametrize("name", BAD_LOOKS)
def test_a_look_that_ends_badly_leaves_unknown_content(
    make_gateway: Callable[[], Gateway],
    make_farm: Callable[..., TargetFarm],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    script, why = BAD_LOOKS[name]
    looks_with(tmp_path / "libexec", script, monkeypatch)
    gateway = make_gateway()
    gateway.start()
    farm = make_farm(3)
    assert examine(gateway, farm.member(0)) == f"unknown content (iraid-look {why})"
    assert children(gateway) == ""
    ran = gateway.iraid("create", "v0", "--level", "5", *farm.members())
    assert ran.status == 1 and "unknown content" in ran.err and "--force" in ran.err, ran
    assert not any(farm.backing(0).read_bytes())
    gateway.must("create", "v0", "--level", "5", "--force", *farm.members())
    assert children(gateway) == ""


def test_a_look_that_is_not_installed_is_told_by_its_name(
    make_gateway: Callable[[], Gateway],
    make_farm: Callable[..., TargetFarm],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("IRAID_LIBEXEC_DIR", str(tmp_path / "nowhere"))
    gateway = make_gateway()
    gateway.start()
    ran = gateway.iraid("examine", make_farm(1).member(0))
    assert ran.status == 1 and f"{tmp_path}/nowhere/iraid-look" in ran.err and "package" in ran.err, ran


# --- what can be done from inside ---


@contextmanager
def taken_over(attempt: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    copy = tmp_path / "copy"
    copy.write_bytes(bytes(1 << 20))
    library = BUILD / "tests/integration/libhostile_blkid.so"
    with (
        copy.open("r+b") as file,
        subprocess.Popen(
            [LOOK, "512"], stdin=file, env={"LD_PRELOAD": str(library), "ATTEMPT": attempt},
            stdout=subprocess.PIPE, text=True,
        ) as process,
    ):  # fmt: skip
        yield process
    assert copy.read_bytes() == bytes(1 << 20)


@pytest.mark.parametrize(
    "attempt", ["open", "socket", "pair", "fork", "exec", "kill", "root", "trace", "map", "truncate"]
)
def test_who_has_taken_the_look_over_can_do_nothing(tmp_path: Path, attempt: str) -> None:
    with taken_over(attempt, tmp_path) as process:
        assert process.communicate(timeout=30)[0] == f"found: {attempt} EPERM \n"


@pytest.mark.parametrize(("attempt", "end"), [("memory", signal.SIGSYS), ("spin", signal.SIGKILL)])
def test_who_wants_too_much_gives_no_answer(tmp_path: Path, attempt: str, end: int) -> None:
    with taken_over(attempt, tmp_path) as process:
        assert process.communicate(timeout=30)[0] == ""
        assert process.returncode == -end


def test_a_look_has_neither_root_nor_groups_nor_a_way_back(tmp_path: Path) -> None:
    with taken_over("spin", tmp_path) as process:
        status = Path(f"/proc/{process.pid}/status")
        said = wait_until(lambda: (text := status.read_text()) and "Seccomp:\t2" in text and text, "its filter")
        process.kill()
    told = dict(line.split(":", 1) for line in said.splitlines())
    for name in ("Uid", "Gid"):
        assert told[name].split() == [str(NOBODY)] * 4
    assert told["Groups"].split() == [] and told["NoNewPrivs"].strip() == "1"
    assert all(int(told[name], 16) == 0 for name in ("CapPrm", "CapEff"))
