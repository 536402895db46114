"""What initiators do with a disk, by the tools they do it with: file systems, discard, partitions, LVM,
multipath, persistent reservations.  On each LUN that exported_lun.py names.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from exported_lun import ExportedLun, exported, names
from scsi_answers import ask_whether_ready

from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.load import Fio
from iraid_dev.stack.tools import PATIENCE, attempt, run, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(400 * PATIENCE)]

KIB, MIB = 1 << 10, 1 << 20
STRESS_SECONDS = 20
CHECK = {"ext4": ("e2fsck", "-f", "-n"), "xfs": ("xfs_repair", "-n")}
# Nobody serves udev's queue here, and the file systems below a LUN are none of LVM's business.
LVM_CONFIG = (
    "--config=activation{{udev_sync=0 udev_rules=0 verify_udev_operations=0}} devices{{"
    'use_devicesfile=0 obtain_device_list_from_udev=0 filter=["a|^{device}$|","r|.*|"]}}'
)


@pytest.fixture(scope="module", params=names())
def lun(request: pytest.FixtureRequest, running_gateway: object) -> Iterator[ExportedLun]:
    with exported(request.param, running_gateway) as made:
        yield made


@pytest.fixture(scope="module")
def shared_disk(lun: ExportedLun) -> Disk:
    return lun.login()


@pytest.fixture
def disk(shared_disk: Disk) -> Iterator[Disk]:
    """Without anything known on it, before and after."""
    forget(shared_disk)
    yield shared_disk
    forget(shared_disk)


def forget(disk: Disk) -> None:
    """Nothing else looks at the first and the last MiB."""
    with open(disk.path, "r+b", buffering=0) as file:
        for offset in (0, disk.size_bytes - MIB):
            file.seek(offset)
            file.write(bytes(MIB))
        os.fsync(file.fileno())
    run("blockdev", "--rereadpt", disk.path)


def queue(disk: Disk, name: str) -> int:
    return int(Path("/sys/block", Path(disk.path).name, "queue", name).read_text())


def needs_discard(disk: Disk, lun: ExportedLun) -> None:
    if queue(disk, "discard_max_bytes") == 0:
        pytest.skip(f"{lun.name} has no UNMAP: discard_max_bytes is 0")


@contextmanager
def mounted(device: str, folder: Path, *options: str) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    run("mount", *options, device, str(folder))
    try:
        yield folder
    finally:
        run("umount", str(folder))


def make(kind: str, device: str) -> None:
    """Both discard the whole device first, where it can."""
    words = {"ext4": ("mkfs.ext4", "-q", "-F", "-E", "discard,lazy_itable_init=0"), "xfs": ("mkfs.xfs", "-q", "-f")}
    run(*words[kind], device)


def check_clean(kind: str, device: str) -> None:
    status, text = attempt(*CHECK[kind], device)
    assert status == 0, text


def drop_caches() -> None:
    Path("/proc/sys/vm/drop_caches").write_text("3")


def fill(path: Path, length: int, seed: int = 1) -> bytes:
    """Every page another one."""
    page = os.urandom(4088)
    data = b"".join(((seed << 32) + place).to_bytes(8, "little") + page for place in range(length // 4096))
    path.write_bytes(data)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return data


# --- file systems ---


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_file_system_made_with_discard_keeps_its_files(disk, tmp_path, kind):
    Fio(disk, rw="write", bs="1M", size="32M").result()  # so that there is something to discard
    make(kind, disk.path)
    with mounted(disk.path, tmp_path / "mnt") as folder:
        written = fill(folder / "file", 24 * MIB)
    drop_caches()
    check_clean(kind, disk.path)
    with mounted(disk.path, tmp_path / "mnt") as folder:
        assert (folder / "file").read_bytes() == written


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_fstrim_takes_what_is_free_and_nothing_else(disk, lun, tmp_path, kind):
    needs_discard(disk, lun)
    make(kind, disk.path)
    with mounted(disk.path, tmp_path / "mnt") as folder:
        kept = fill(folder / "kept", 16 * MIB, seed=2)
        fill(folder / "gone", 32 * MIB, seed=3)
        (folder / "gone").unlink()
        run("sync")
        trimmed = re.search(r"\((\d+) bytes\) trimmed", run("fstrim", "--verbose", str(folder)))
        assert trimmed and int(trimmed[1]) >= 32 * MIB
        drop_caches()
        assert (folder / "kept").read_bytes() == kept
    check_clean(kind, disk.path)


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_file_system_under_stress_is_clean_afterwards(disk, tmp_path, kind):
    """Mounted with -o discard, so that deleted files are unmapped while the others are written."""
    make(kind, disk.path)
    with mounted(disk.path, tmp_path / "mnt", "-o", "discard") as folder:
        run(
            "stress-ng",
            "--temp-path",
            str(folder),
            "--timeout",
            f"{STRESS_SECONDS}s",
            "--verify",
            "--hdd",
            "2",
            "--hdd-bytes",
            "8m",
            "--hdd-opts",
            "wr-rnd,rd-rnd,fsync",
            "--fallocate",
            "1",
            "--fallocate-bytes",
            "8m",
            "--rename",
            "1",
            "--dentry",
            "1",
            "--dentries",
            "64",
            "--symlink",
            "1",
            "--aio",
            "1",
            "--metrics-brief",
            seconds=(STRESS_SECONDS + 180) * PATIENCE,
        )
        written = fill(folder / "last", 4 * MIB, seed=4)
    drop_caches()
    check_clean(kind, disk.path)
    with mounted(disk.path, tmp_path / "mnt") as folder:
        assert (folder / "last").read_bytes() == written


# --- the block device ---


@pytest.mark.parametrize(
    "offset, length",
    [(0, 32 * MIB), (36 * KIB, 20 * KIB), (MIB + 512, 7 * MIB + 1024)],
    ids=["long", "inside a chunk", "unaligned"],
)
def test_blkdiscard_zeroout_zeroes_its_range_alone(disk, offset, length):
    before, after = write_pattern(disk, 40 * MIB), bytes(length)
    run("blkdiscard", "--force", "--zeroout", "--offset", str(offset), "--length", str(length), disk.path)
    got = read_back(disk, 40 * MIB)
    assert got[offset : offset + length] == after
    assert got[:offset] == before[:offset] and got[offset + length :] == before[offset + length :]


@pytest.mark.parametrize(
    "offset, length",
    [(0, 32 * MIB), (36 * KIB, 20 * KIB), (MIB + 512, 7 * MIB + 1024)],
    ids=["long", "inside a chunk", "unaligned"],
)
def test_blkdiscard_leaves_its_neighbours_alone(disk, lun, offset, length):
    """What is discarded reads as zeros where that was promised (LBPRZ); what is less than a granule may stay."""
    needs_discard(disk, lun)
    before = write_pattern(disk, 40 * MIB)
    run("blkdiscard", "--force", "--offset", str(offset), "--length", str(length), disk.path)
    got = read_back(disk, 40 * MIB)
    assert got[:offset] == before[:offset] and got[offset + length :] == before[offset + length :]
    kept = [
        place
        for place in range(offset, offset + length, 512)
        if any(got[place : place + 512]) and got[place : place + 512] != before[place : place + 512]
    ]
    assert kept == [], f"neither zero nor as before, at {kept[:4]}"
    if length == 32 * MIB:
        granule = max(queue(disk, "discard_granularity"), 512)
        assert got[granule : length - granule] == bytes(length - 2 * granule)


def write_pattern(disk: Disk, length: int) -> bytes:
    """Every block another one, none of them zero."""
    data = b"".join((1 + place).to_bytes(8, "big") * 64 for place in range(length // 512))
    with open(disk.path, "r+b", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())
    return data


def read_back(disk: Disk, length: int) -> bytes:
    run("blockdev", "--flushbufs", disk.path)
    with open(disk.path, "rb", buffering=0) as file:
        return b"".join(iter(lambda: file.read(min(MIB, length - file.tell())), b""))


def test_a_partition_table_is_read_again_and_aligned(disk, lun, tmp_path):
    """Ours tell a stripe as the optimal length, and parted starts partitions there by itself; LIO tells 8 MiB, and it
    doesn't."""
    run(
        "parted",
        "--script",
        "--align",
        "optimal",
        disk.path,
        "mklabel",
        "gpt",
        "mkpart",
        "first",
        "0%",
        "40%",
        "mkpart",
        "second",
        "40%",
        "100%",
    )
    assert "No problems found" in run("sgdisk", "--verify", disk.path)
    run("blockdev", "--rereadpt", disk.path)
    second = Path(disk.path + "2")
    wait_for(second.is_block_device, f"partition {second}")
    for number in ("1", "2"):
        for kind in ("minimal",) if lun.name == "reference" else ("minimal", "optimal"):
            run("parted", "--script", disk.path, "align-check", kind, number)
    make("ext4", str(second))
    with mounted(str(second), tmp_path / "mnt") as folder:
        written = fill(folder / "file", 8 * MIB)
    drop_caches()
    check_clean("ext4", str(second))
    with mounted(str(second), tmp_path / "mnt") as folder:
        assert (folder / "file").read_bytes() == written


# --- LVM ---


def lvm(disk: Disk, command: str, *words: str) -> str:
    """LVM sees this disk and no other."""
    return run("lvm", command, LVM_CONFIG.format(device=disk.path), *words)


def test_logical_volumes_grow_and_come_back(disk, tmp_path):
    run("modprobe", "dm-mod")
    group = "stockvg"
    lvm(disk, "pvcreate", "--yes", "--force", "--force", disk.path)
    lvm(disk, "vgcreate", group, disk.path)
    try:
        lvm(disk, "lvcreate", "--yes", "--name", "data", "--size", "64m", group)
        lvm(disk, "lvcreate", "--yes", "--name", "other", "--size", "32m", group)
        make("ext4", f"/dev/mapper/{group}-data")
        with mounted(f"/dev/mapper/{group}-data", tmp_path / "mnt") as folder:
            written = fill(folder / "file", 16 * MIB)
        lvm(disk, "vgchange", "--activate", "n", group)
        lvm(disk, "lvextend", "--size", "128m", f"{group}/data")
        lvm(disk, "vgchange", "--activate", "y", group)
        run("e2fsck", "-f", "-y", f"/dev/mapper/{group}-data")
        run("resize2fs", f"/dev/mapper/{group}-data")
        drop_caches()
        check_clean("ext4", f"/dev/mapper/{group}-data")
        with mounted(f"/dev/mapper/{group}-data", tmp_path / "mnt") as folder:
            assert (folder / "file").read_bytes() == written
    finally:
        lvm(disk, "vgremove", "--yes", "--force", group)
        lvm(disk, "pvremove", "--yes", "--force", disk.path)


# --- two initiators ---


PERSIST = ("sg_persist", "--no-inquiry")
KEY, OTHER_KEY = "0x1234abcd", "0x5678ef01"
CONFLICT = 24  # sg3-utils' status for RESERVATION CONFLICT


def writes(disk: Disk) -> bool:
    status, _ = attempt("dd", "if=/dev/zero", f"of={disk.path}", "bs=4096", "count=1", "oflag=direct")
    return status == 0


def reads(disk: Disk) -> bool:
    status, _ = attempt("dd", f"if={disk.path}", "of=/dev/null", "bs=4096", "count=1", "iflag=direct")
    return status == 0


def register(disk: Disk, key: str) -> None:
    """A new session may have a unit attention to tell first."""
    ask_whether_ready(disk.path)
    run(*PERSIST, "--out", "--register-ignore", f"--param-sark={key}", disk.path)


def test_a_reservation_held_by_one_initiator_is_refused_to_another(lun, disk):
    """Write Exclusive, Registrants Only (type 5), as clusters use it."""
    other = lun.login_as_second()
    try:
        register(disk, KEY)
        run(*PERSIST, "--out", "--reserve", f"--param-rk={KEY}", "--prout-type=5", disk.path)
        assert writes(disk), "the holder can't write"
        assert not writes(other), "an initiator without registration wrote to a reserved LUN"
        assert reads(other), "reads are not what type 5 forbids"
        assert KEY in run(*PERSIST, "--in", "--read-reservation", other.path)

        register(other, OTHER_KEY)
        assert writes(other), "a registrant can't write"
        status, text = attempt(*PERSIST, "--out", "--reserve", f"--param-rk={OTHER_KEY}", "--prout-type=1", other.path)
        assert status == CONFLICT, f"a second reservation: status {status}: {text}"

        run(
            *PERSIST,
            "--out",
            "--preempt-abort",
            f"--param-rk={OTHER_KEY}",
            f"--param-sark={KEY}",
            "--prout-type=5",
            other.path,
        )
        ask_whether_ready(disk.path)
        assert not writes(disk), "the initiator that was preempted still writes"
        assert writes(other)
    finally:
        for one in (disk, other):
            ask_whether_ready(one.path)
            attempt(*PERSIST, "--out", "--register-ignore", "--param-sark=0", one.path)
            attempt(*PERSIST, "--out", "--clear", f"--param-rk={KEY}", one.path)
        lun.logout_last()
    assert writes(disk)


# --- two paths ---

MULTIPATH_CONF = """\
defaults {
	user_friendly_names yes
	find_multipaths no
	polling_interval 1
	max_polling_interval 2
	no_path_retry 10
	path_grouping_policy multibus
	path_selector "round-robin 0"
	skip_kpartx yes
}
blacklist {
	devnode "^(ubd|loop|ram|zram|dm-)"
}
"""


@pytest.fixture
def multipathd() -> Iterator[None]:
    """With udevd, which it asks what a path's name is; both end with the test."""
    for module in ("dm-multipath", "dm-round-robin"):
        status, text = attempt("modprobe", module)
        if status != 0:
            pytest.skip(f"this kernel has no {module}: {text}")
    Path("/etc/multipath.conf").write_text(MULTIPATH_CONF)
    Path("/run/udev").mkdir(exist_ok=True)
    udevd = subprocess.Popen(["/lib/systemd/systemd-udevd"], stdin=subprocess.DEVNULL)
    wait_for(lambda: Path("/run/udev/control").exists(), "udevd")
    run("udevadm", "trigger", "--action=add", "--subsystem-match=block", "--subsystem-match=scsi")
    run("udevadm", "settle", "--timeout=60")
    daemon = subprocess.Popen(["multipathd", "-d", "-s"], stdin=subprocess.DEVNULL)
    try:
        wait_for(lambda: "idle" in attempt("multipathd", "show", "daemon")[1], "multipathd to be ready")
        yield
    finally:
        attempt("multipath", "-F")
        for process in (daemon, udevd):
            process.terminate()
            process.wait(timeout=60)
        Path("/run/udev/control").unlink(missing_ok=True)  # or libdm waits for a udevd that is gone


def paths_of(name: str) -> dict[str, str]:
    """Device and state of each path of a map."""
    text = run("multipathd", "show", "paths", "raw", "format", "%m %d %t")
    return {
        found[1]: found[2]
        for line in text.splitlines()
        if (found := re.fullmatch(re.escape(name) + r"\s+(\S+)\s+(\S+)\s*", line))
    }


def map_over(disks: list[Disk]) -> str:
    """The one map that has all of them; empty as long as there is none."""
    wanted = {Path(disk.path).name for disk in disks}
    lines = [line.split() for line in run("multipathd", "show", "paths", "raw", "format", "%m %d").splitlines()]
    maps = {words[1]: words[0] for words in lines if len(words) == 2 and words[1] in wanted}
    found = set(maps.values())
    return found.pop() if set(maps) == wanted and len(found) == 1 and "[orphan]" not in found else ""


def set_state(disk: Disk, state: str) -> None:
    Path("/sys/block", Path(disk.path).name, "device/state").write_text(state + "\n")


def test_multipath_goes_on_over_the_portal_that_is_left(lun, disk, multipathd):
    """Each path goes and comes back in turn, under a load that verifies."""
    disks = [disk, lun.login(portal_index=1)]
    try:
        name = wait_for(lambda: map_over(disks), "one map over both paths", seconds=60)
        wait_for(lambda: list(paths_of(name).values()) == ["active", "active"], "both paths to be active")
        fio = Fio(
            Disk(lun.iqn, "", f"/dev/mapper/{name}"),
            rw="randwrite",
            bs="16k",
            iodepth=8,
            size="64M",
            rate="4m",
            verify_backlog=64,
        )
        try:
            for lost in disks:
                device = Path(lost.path).name
                set_state(lost, "offline")
                wait_for(lambda: paths_of(name)[device] == "failed", f"{device} to be found failed", 60)
                assert fio.running(), "the load ended while a path was away"
                set_state(lost, "running")
                wait_for(lambda: paths_of(name)[device] == "active", f"{device} to be taken back", 60)
            result = fio.result()
        finally:
            fio.end()
            for one in disks:
                set_state(one, "running")
        assert result.read_bytes > 0 and result.written_bytes == 64 * MIB
    finally:
        attempt("multipath", "-F")
        lun.logout_last()
