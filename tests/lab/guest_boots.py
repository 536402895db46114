#!/usr/bin/python3
"""Initiators of another make on a LUN of ours, one of whose members is killed meanwhile: guests of QEMU that boot from it,
and the tools of libiscsi and QEMU.  A table of them.

    scripts/lab --machines g -- tests/lab/guest_boots.py                      all
    scripts/lab --machines g -- tests/lab/guest_boots.py --way ipxe --moment loader
    scripts/lab --machines g -- tests/lab/guest_boots.py --tools              the tools alone
    scripts/lab --machines g -- tests/lab/guest_boots.py --level 0            must fail

The gateway is the machine g; members, guests and tools are beside it, and QEMU emulates its processor, with or without KVM
on this machine.  Members are killed by SIGKILL when something is seen: a line on the guest's serial console, or a figure
in what a tool says.  Exit status 1: something was not as it must be.
"""

from __future__ import annotations

import argparse
import dataclasses
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import guest_image
from guest_image import FILES, IMAGE_BYTES, MIB, NEEDED, PATH, GuestImage

from iraid_dev.lab import network
from iraid_dev.lab.machines import Machines
from iraid_dev.places import ROOT
from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.reader import VolumeReader

VOLUME, IQN = "v0", "iqn.2026-01.org.iraid.test:guests"
INITIATORS = {name: f"iqn.2026-01.org.iraid.test:{name}" for name in ("qemu", "ipxe", "tools")}
GUEST = ROOT / "tests/lab/guest"
IRAID = ROOT / "scripts/iraid"
MEMBERS, MEMBER_BYTES = 4, 104 * MIB  # level 5: 3 of data
BOOT_SECONDS = 900.0  # of one that goes on speaking: the machine may be busy
QUIET_SECONDS = 120.0  # a guest that says nothing for so long has stopped
STALL_SECONDS_MAX = 8.0
GUEST_MEMORY = "512M"
OVMF = Path("/usr/share/OVMF")

AREAS = 60  # that qemu-io writes and reads
TOOLS_NEEDED = {
    "iscsi-ls": "libiscsi-bin",
    "iscsi-inq": "libiscsi-bin",
    "iscsi-readcapacity16": "libiscsi-bin",
    "iscsi-perf": "libiscsi-bin",
    "qemu-img": "qemu-utils",
    "qemu-io": "qemu-utils",
}
ISCSI_DRIVER = {"/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so": "qemu-block-extra"}


# iPXE leaves its session open for the kernel that it starts, and serves it no more: LIO pings it, and closes it.  The
# kernel's own session has the same initiator name; iPXE's has an ISID of the company that iPXE comes from.
LEFT_BY_IPXE = re.compile("Did not receive response to NOPIN .*:ipxe,i,0x40002723")


class GuestError(Exception):
    """Something did not come to pass; the text says what."""


@dataclass(frozen=True)
class Moment:
    """Between two lines of the guest's console.  None: the firmware's own words, that say what it boots from."""

    begins: str | None
    ends: str


MOMENTS = {
    "firmware": Moment(None, "guest: the loader reads the kernel"),
    "loader": Moment("guest: the loader reads the initramfs", "guest: the kernel starts"),
    "reading": Moment("guest: read 8", f"guest: read {FILES}"),
    "writing": Moment("guest: wrote 8", f"guest: wrote {FILES}"),
}
NEVER = "never"
UP = "guest: the first program runs"


@dataclass(frozen=True)
class Way:
    """How a guest comes to its disk."""

    words: Callable[[Gateway, Path], list[str]]
    firmware_says: str
    needed: dict[str, str]


def _qemu_disk(gateway: Gateway) -> list[str]:
    return [
        *("-iscsi", f"initiator-name={INITIATORS['qemu']}"),
        *("-drive", f"file=iscsi://{gateway.portal}/{IQN}/0,format=raw,if=none,id=lun,cache=none"),
        *("-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=lun,bootindex=1"),
    ]


def _uefi(folder: Path) -> list[str]:
    variables = folder / "variables.fd"
    shutil.copy(OVMF / "OVMF_VARS_4M.fd", variables)
    return [
        *("-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={OVMF / 'OVMF_CODE_4M.fd'}"),
        *("-drive", f"if=pflash,unit=1,format=raw,file={variables}"),
    ]


def _ipxe(gateway: Gateway, folder: Path) -> list[str]:
    """The network card's own boot code asks for an address and a script, and has no other disk than what that names."""
    (folder / "tftp").mkdir(exist_ok=True)
    (folder / "tftp/boot.ipxe").write_text(
        "#!ipxe\n"
        f"set initiator-iqn {INITIATORS['ipxe']}\n"
        "set keep-san 1\n"
        f"sanboot iscsi:{gateway.portal.partition(':')[0]}::::{IQN}\n"
    )
    return [
        *("-netdev", f"user,id=net,tftp={folder / 'tftp'},bootfile=boot.ipxe"),
        *("-device", "virtio-net-pci,netdev=net,bootindex=1"),
    ]


WAYS = {
    "bios": Way(lambda gateway, _: _qemu_disk(gateway), "Booting from Hard Disk", ISCSI_DRIVER),
    "ipxe": Way(_ipxe, "Booting from SAN device", {"/usr/lib/ipxe/qemu/efi-virtio.rom": "ipxe-qemu"}),
    "uefi-ipxe": Way(
        lambda gateway, folder: _uefi(folder) + _ipxe(gateway, folder),
        "Booting from SAN device",
        {"/usr/lib/ipxe/qemu/efi-virtio.rom": "ipxe-qemu", str(OVMF / "OVMF_CODE_4M.fd"): "ovmf"},
    ),
    "uefi": Way(
        lambda gateway, folder: _uefi(folder) + _qemu_disk(gateway),
        "BdsDxe: starting",
        ISCSI_DRIVER | {str(OVMF / "OVMF_CODE_4M.fd"): "ovmf"},
    ),
}


def missing(ways: list[str], tools: bool) -> str:
    """What these need and this machine has not; empty when all is there."""
    needed = dict(NEEDED)
    for name in ways:
        needed |= WAYS[name].needed
    return guest_image.missing(needed | (TOOLS_NEEDED | ISCSI_DRIVER if tools else {}))


@dataclass(frozen=True)
class Span:
    """Of the guest's boot, or what was left of it when a member was killed."""

    moment: str
    seconds: float
    stall_seconds: float  # the longest without a byte from the LUN


@dataclass
class Seen:
    way: str
    killed_while: str
    member: int | None = None
    up_seconds: float = 0.0  # from QEMU's start to the guest's first program
    done_seconds: float = 0.0
    spans: list[Span] = field(default_factory=list)
    after_kill_mib: float = 0.0  # what came from the LUN between the kill and the end of what was going on
    faults: list[str] = field(default_factory=list)


class Traffic:
    """When bytes came from the gateway to its initiators."""

    def __init__(self) -> None:
        self._changes: list[tuple[float, int]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        self._thread.join()

    def silence(self, begin: float, end: float) -> float:
        """The longest, in seconds."""
        times = [begin, *(when for when, _ in self._changes if begin < when < end), end]
        return max(after - before for before, after in zip(times, times[1:], strict=False))

    def received(self, begin: float, end: float) -> int:
        counts = [count for when, count in self._changes if begin <= when <= end]
        return counts[-1] - counts[0] if counts else 0

    def _watch(self) -> None:
        while not self._end.wait(0.005):
            count = self._count()
            if not self._changes or count != self._changes[-1][1]:
                self._changes.append((time.monotonic(), count))

    @staticmethod
    def _count() -> int:
        line = re.search(r"^ *g\.front: *(\d+)", Path("/proc/net/dev").read_text(), re.MULTILINE)
        assert line is not None
        return int(line[1])


class Console:
    """What a program says, and when."""

    def __init__(self, words: list[str], log: Path):
        self.begin = time.monotonic()
        self._log = log.open("wb")
        self._text = ""
        self._times: list[tuple[int, float]] = []  # so much text was there at this time
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PATH": PATH},
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        self._log.close()

    def wait(self, pattern: str, seconds: float) -> bool:
        """Until it has said so.  False: it ended, or stopped, without."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not re.search(pattern, self._text):
                length = len(self._text)
                left = min(QUIET_SECONDS, deadline - time.monotonic())
                if not self._thread.is_alive() or left <= 0:
                    return re.search(pattern, self._text) is not None
                self._changed.wait(left)
                if len(self._text) == length and self._process.poll() is None:
                    return False
        return True

    def end(self, seconds: float) -> int | None:
        """Its exit status; None when it goes on."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._thread.join()
        return status

    @property
    def text(self) -> str:
        return self._text

    def when(self, pattern: str) -> float | None:
        found = re.search(pattern, self._text)
        return found and next(when for length, when in self._times if length >= found.end())

    def _read(self) -> None:
        assert self._process.stdout is not None
        while data := os.read(self._process.stdout.fileno(), 65536):
            self._log.write(data)
            with self._changed:
                self._text += data.decode(errors="replace").replace("\r", "\n")
                self._times.append((len(self._text), time.monotonic()))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


def line(text: str) -> str:
    """As a pattern; "read 8" is not "read 80".  Before it may stand orders to the screen."""
    return re.escape(text) + r"(?!\d)"


class Gateway:
    """The machine g with a volume that it exports, and the members beside it."""

    def __init__(self, folder: Path, level: int):
        self.folder, self.level = folder, level
        self.machine = Machines.of_this_lab()["g"]
        self.portal = f"{self.machine.address('front')}:3260"
        shutil.rmtree(folder / "members", ignore_errors=True)
        self.farm = TargetFarm(folder / "members", MEMBERS, MEMBER_BYTES, address=network.address("back", 1))

    def __enter__(self) -> Self:
        self.farm.__enter__()
        self.machine.run(str(GUEST / "runner")).good()
        self.iraid("create", VOLUME, "--level", str(self.level), "--wait", *self.farm.members())
        acl = [word for name in INITIATORS.values() for word in ("--acl", name)]
        self.iraid("export", VOLUME, "--iqn", IQN, "--portal", "0.0.0.0:3260", "--no-chap", *acl)
        return self

    def __exit__(self, *_: object) -> None:
        self.farm.close()

    def iraid(self, *words: str) -> str:
        return self.machine.run(f"{IRAID} {' '.join(words)}", seconds=120.0).good().output

    def status(self) -> dict[str, Any]:
        status = json.loads(self.iraid("status", VOLUME, "--json"))
        assert isinstance(status, dict)
        return status

    def kernel_log(self) -> list[str]:
        """Errors in it."""
        return self.machine.run("dmesg --level emerg,alert,crit,err").good().output.splitlines()

    def bring_back(self, member: int) -> None:
        self.farm.restart(member)
        self.wait(lambda status: status["state"] == "active" and status["regions"]["suspect"] == 0, "whole")

    def wait(self, condition: Callable[[dict[str, Any]], object], what: str, seconds: float = 120.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition(self.status()):
            if time.monotonic() > deadline:
                raise GuestError(f"waited {seconds:g} s for the volume to be {what}: {self.status()}")

    def misses(self, member: int) -> str:
        """What is wrong with the volume's opinion of a member that was killed; empty when it is right."""
        state = self.status()["members"][member]["state"]
        return "" if state == "faulty" or self.level == 0 else f"member {member} was killed and is {state}"

    def as_options(self, initiator: str) -> str:
        """The LUN, for qemu-img --image-opts."""
        return (
            f"driver=raw,size={IMAGE_BYTES},file.driver=iscsi,file.transport=tcp,file.portal={self.portal},"
            f"file.target={IQN},file.lun=0,file.initiator-name={INITIATORS[initiator]}"
        )


def qemu_img(*words: str | Path) -> None:
    command = ["qemu-img", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise GuestError(f"{' '.join(command)}: status {done.returncode}: {done.stdout}{done.stderr}")


def boot(gateway: Gateway, image: GuestImage, way: str, killed_while: str, member: int) -> Seen:
    """Begins and ends with the volume whole."""
    seen = Seen(way, killed_while, None if killed_while == NEVER else member)
    name = f"{way}-{killed_while}"
    folder = gateway.folder / name
    folder.mkdir(exist_ok=True)
    qemu_img("convert", "-n", "-f", "raw", "--target-image-opts", image.path, gateway.as_options("qemu"))
    words = [
        *("qemu-system-x86_64", "-machine", "q35,graphics=off,accel=tcg", "-m", GUEST_MEMORY),
        *("-nodefaults", "-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot"),
        *WAYS[way].words(gateway, folder),
    ]
    traffic = Traffic()
    with Console(words, folder / "console.log") as console:
        killed = watch(gateway, console, seen)
    traffic.close()
    note_times(console, traffic, killed, seen)
    if not seen.faults:
        look_at_disk(gateway, image, folder, seen)
    if seen.member is not None:
        if wrong := gateway.misses(seen.member):
            seen.faults.append(wrong)
        gateway.bring_back(seen.member)
    return seen


def moment_of(name: str, way: str) -> tuple[str, str]:
    """Patterns of its begin and end."""
    begins = MOMENTS[name].begins
    return WAYS[way].firmware_says if begins is None else line(begins), line(MOMENTS[name].ends)


def watch(gateway: Gateway, console: Console, seen: Seen) -> float | None:
    """Until the guest has ended.  Gives the time when the member was killed."""
    killed = None
    if seen.member is not None:
        begins, ends = moment_of(seen.killed_while, seen.way)
        if not console.wait(begins, BOOT_SECONDS):
            seen.faults.append(f"it did not come to '{begins}'; its last words: {console.text[-500:]!r}")
            return None
        killed = time.monotonic()
        gateway.farm.kill(seen.member)
        if console.when(ends) is not None:
            seen.faults.append("it was quicker than we could kill: give it more to do")
            return killed
    told = console.wait(r"guest: (done|FAILED.*)\n", BOOT_SECONDS)
    seen.faults += re.findall(r"guest: (FAILED.*|kernel: .*)\n", console.text)
    if not told:
        seen.faults.append(f"it did not come to its end; its last words: {console.text[-500:]!r}")
    elif console.end(30.0) != 0:
        seen.faults.append("QEMU did not end well")
    return killed


def note_times(console: Console, traffic: Traffic, killed: float | None, seen: Seen) -> None:
    if (up := console.when(line(UP))) is not None:
        seen.up_seconds = round(up - console.begin, 1)
    if (done := console.when(line("guest: done"))) is not None:
        seen.done_seconds = round(done - console.begin, 1)
    for name in MOMENTS if killed is None else [seen.killed_while]:
        begin, end = map(console.when, moment_of(name, seen.way))
        if begin is None or end is None:
            continue
        begin = killed or begin
        span = Span(name, round(end - begin, 2), round(traffic.silence(begin, end), 2))
        seen.spans.append(span)
        if span.stall_seconds > STALL_SECONDS_MAX:
            seen.faults.append(f"the LUN said nothing for {span.stall_seconds} s while {name}")
        if killed is not None:
            seen.after_kill_mib = round(traffic.received(begin, end) / MIB, 1)


def look_at_disk(gateway: Gateway, image: GuestImage, folder: Path, seen: Seen) -> None:
    """What the guest wrote, as another initiator reads it: of a volume that still misses a member where one was killed."""
    copy = folder / "after.img"
    qemu_img("convert", "-O", "raw", "--image-opts", gateway.as_options("tools"), copy)
    for name in ("data", "written"):
        found = guest_image.files_of(copy, folder, name)
        wrong = sorted(one for one in image.sums if found.get(one) != image.sums[one])
        if wrong or len(found) != len(image.sums):
            seen.faults.append(f"/{name} on the disk: of {len(found)} files these are wrong: {wrong}")
    shutil.rmtree(folder / "found")
    for path in (copy, folder / "root.found"):
        path.unlink()


# Tools


@dataclass
class Tool:
    name: str
    killed: bool
    seconds: float = 0.0
    stall_seconds: float = 0.0
    said: str = ""
    faults: list[str] = field(default_factory=list)


def use(
    gateway: Gateway, words: list[str | Path], kill_when: str = "", member: int = 0, expected: str = "", name: str = ""
) -> Tool:
    """kill_when: a pattern in what it says; expected: what it must have said in the end."""
    tool = Tool(name or str(words[0]), bool(kill_when))
    traffic = Traffic()
    with Console([str(word) for word in words], gateway.folder / "tool.log") as console:
        killed = None
        if kill_when:
            if console.wait(kill_when, BOOT_SECONDS) and console.end(0) is None:
                killed = time.monotonic()
                gateway.farm.kill(member)
            else:
                tool.faults.append(f"it ended before it said '{kill_when}'")
        status = console.end(BOOT_SECONDS)
        ended = time.monotonic()
    traffic.close()
    tool.seconds = round(ended - console.begin, 1)
    tool.stall_seconds = round(traffic.silence(killed or console.begin, ended), 2)
    tool.said = console.text.strip()[-200:]
    if status != 0:
        tool.faults.append(f"exit status {status}: {console.text[-500:]}")
    if not re.search(expected, console.text):
        tool.faults.append(f"it did not say '{expected}': {console.text[-500:]}")
    if killed is not None:
        if wrong := gateway.misses(member):
            tool.faults.append(wrong)
        gateway.bring_back(member)
    return tool


def use_tools(gateway: Gateway, image: GuestImage) -> list[Tool]:
    """Those that move data do it twice: with all members, and while one is killed."""
    url, name = f"iscsi://{gateway.portal}/{IQN}/0", ["-i", INITIATORS["tools"]]
    blocks = gateway.status()["size_bytes"] // 512
    copy = gateway.folder / "copy.img"
    lun = gateway.as_options("tools")
    to_lun: list[str | Path] = ["qemu-img", "convert", "-p", "-n", "-f", "raw", "--target-image-opts", image.path, lun]
    from_lun: list[str | Path] = ["qemu-img", "convert", "-p", "-O", "raw", "--image-opts", lun, copy]
    patterns: list[str | Path] = ["qemu-io", "-t", "none", "--image-opts", lun, *_areas("write"), "-c", "flush"]
    patterns += _areas("read")
    load: list[str | Path] = ["iscsi-perf", *name, "-m", "16", "-b", "128", "-r", "-t", "10", url]
    tools = [
        use(gateway, ["iscsi-ls", *name, "-s", f"iscsi://{gateway.portal}"], expected=rf"{IQN}[\s\S]*Lun:0"),
        use(gateway, ["iscsi-inq", *name, url], expected="Product:P-iRAID volume"),
        use(gateway, ["iscsi-readcapacity16", *name, url], expected=f"ADDRESS:{blocks - 1}\\n"),
    ]
    wrote = f"wrote .* {_area_offset(20)}\\n"
    third_done, going = r"\([3-9]\d\.\d\d/100%\)", r"iops current [1-9]\d*"
    for kill in (False, True):
        if kill:  # so that what is on the LUN already is not what is looked for
            noise = gateway.folder / "noise.img"
            noise.write_bytes(os.urandom(MIB) * (IMAGE_BYTES // MIB))
            qemu_img("convert", "-n", "-f", "raw", "--target-image-opts", noise, lun)
            noise.unlink()
        tools += [
            use(gateway, to_lun, third_done if kill else "", member=0, name="qemu-img convert, to the LUN"),
            use(gateway, from_lun, third_done if kill else "", member=1, name="qemu-img convert, from the LUN"),
            use(gateway, patterns, wrote if kill else "", member=2, expected=f"read .* {_area_offset(AREAS - 1)}\\n"),
            use(gateway, load, going if kill else "", member=3, expected="finished"),
        ]
        if not filecmp.cmp(image.path, copy, shallow=False):
            tools[-3].faults.append("what came from the LUN is not what was written to it")
        copy.unlink()
    return tools


def _areas(verb: str) -> list[str]:
    """Each with a byte of its own, and neither begin nor end at a chunk's; qemu-io fails when it reads another byte."""
    orders = [f"{verb} -P {number + 1} {_area_offset(number)} {MIB}" for number in range(AREAS)]
    return [word for order in orders for word in ("-c", order)]


def _area_offset(number: int) -> int:
    return number * (4 * MIB + 512)


def table(boots: list[Seen], tools: list[Tool]) -> str:
    lines: list[str] = []
    if boots:
        lines += [
            "| guest | killed while | member | up after | done after | took, longest stall | from the LUN behind the kill | faults |",
            "|---|---|---:|---:|---:|---|---:|---:|",
        ]
    for seen in boots:
        spans = ", ".join(f"{span.moment} {span.seconds:.1f} s, {span.stall_seconds:.2f} s" for span in seen.spans)
        member, read = ("", "") if seen.member is None else (seen.member, f"{seen.after_kill_mib} MiB")
        lines.append(
            f"| {seen.way} | {seen.killed_while} | {member} | {seen.up_seconds} s | {seen.done_seconds} s | {spans} | "
            f"{read} | {len(seen.faults)} |"
        )
    if tools:
        lines += ["", "| tool | member killed | took | longest stall | faults |", "|---|---|---:|---:|---:|"]
    for tool in tools:
        killed = "yes" if tool.killed else ""
        lines.append(f"| {tool.name} | {killed} | {tool.seconds} s | {tool.stall_seconds:.2f} s | {len(tool.faults)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", action="append", choices=WAYS, help="only this (may be given again)")
    parser.add_argument("--moment", action="append", choices=(NEVER, *MOMENTS), help="only this (may be given again)")
    parser.add_argument("--level", type=int, choices=(0, 5), default=5, help="of the volume; 0 can't lose a member")
    parser.add_argument("--tools", action="store_true", help="the tools, and guests only if a way or moment is given")
    given = parser.parse_args()
    guests = bool(given.way or given.moment or not given.tools)
    tools = given.tools or not (given.way or given.moment or given.level == 0)
    ways = given.way or list(WAYS) if guests else []
    if reason := missing(ways, tools):
        parser.error(reason)
    moments = given.moment or [NEVER, *MOMENTS]
    folder = Path(os.environ["IRAID_LAB_STATE"])
    boots: list[Seen] = []
    used: list[Tool] = []
    shutil.rmtree(folder / "image", ignore_errors=True)
    image = guest_image.make(folder / "image")
    with Gateway(folder, given.level) as gateway:
        before = gateway.kernel_log()
        for way in ways:
            for moment in moments:
                boots.append(boot(gateway, image, way, moment, member=len(boots) % MEMBERS))
                print(json.dumps(dataclasses.asdict(boots[-1])), flush=True)
        if tools:
            used = use_tools(gateway, image)
            for tool in used:
                print(json.dumps(dataclasses.asdict(tool)), flush=True)
        said = [entry for entry in gateway.kernel_log() if entry not in before and not LEFT_BY_IPXE.search(entry)]
        files = [gateway.farm.backing(number) for number in range(MEMBERS)]
        wrong_rows = len(VolumeReader(files).wrong_rows()) if given.level else 0
    print(table(boots, used))
    print(f"\nwrong rows on the members: {wrong_rows}; errors in the gateway's kernel log: {len(said)}")
    print("".join(f"    {entry}\n" for entry in said), end="")
    return 1 if wrong_rows or said or any(one.faults for one in [*boots, *used]) else 0


if __name__ == "__main__":
    sys.exit(main())
