"""dm-multipath with what the package ships for it, over the path to one gateway of a pair, whose role changes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iraid_dev.stack.gateway import iraid
from iraid_dev.stack.initiator import Disk
from iraid_dev.stack.load import Fio
from iraid_dev.stack.tools import attempt, run, wait_for

ROOT = Path(__file__).parents[2]
STANZA = ROOT / "config/multipath/iraid.conf"
MIB = 1 << 20
# What is of this lab alone: it has one path, is in a hurry, and its own disks are none of multipath's.
DEFAULTS = """\
defaults {
	find_multipaths greedy
	polling_interval 1
	max_polling_interval 2
	skip_kpartx yes
}
blacklist {
	devnode "^(ubd|loop|ram|zram|dm-|vd)"
}
"""


@pytest.fixture
def multipathd() -> Iterator[None]:
    """With udevd, which it asks what a path's name is; both end with the test."""
    for module in ("dm-multipath", "dm-service-time"):
        status, text = attempt("modprobe", module)
        if status != 0:
            pytest.skip(f"this kernel has no {module}: {text}")
    Path("/etc/multipath.conf").write_text(DEFAULTS)
    shipped = Path("/etc/multipath/conf.d/iraid.conf")
    shipped.parent.mkdir(parents=True, exist_ok=True)
    shipped.write_text(STANZA.read_text())
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
        shipped.unlink()


def path_of(disk: Disk) -> tuple[str, str, str]:
    """Map, what the checker says of the path, and its priority."""
    text = run("multipathd", "show", "paths", "raw", "format", "%m %d %T %p")
    device = Path(disk.path).name
    found = re.search(rf"^(\S+)\s+{device}\s+(\S+)\s+(-?\d+)\s*$", text, re.MULTILINE)
    return (found[1], found[2], found[3]) if found else ("", "", "")


def as_the_gateway_says(disk: Disk, checker: str, priority: str) -> str:
    name, *seen = path_of(disk)
    return name if name not in ("", "[orphan]") and seen == [checker, priority] else ""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_load_waits_while_the_volume_is_on_standby_and_loses_nothing(gateway, farm, multipathd):
    volume = gateway.create(5, farm(3, size_bytes=64 << 20).members())
    volume.export("--pair", "1")
    disk = volume.login()
    name = wait_for(lambda: as_the_gateway_says(disk, "ready", "50"), "an optimized path", seconds=120)
    assert "immediate" in run("multipathd", "show", "maps", "raw", "format", "%n %F")
    assert "queue_if_no_path" in run("dmsetup", "table", name)
    # fio would make a file of that name.
    wait_for(Path(f"/dev/mapper/{name}").is_block_device, "udev to name the map")
    fio = Fio(
        Disk(volume.iqn, "", f"/dev/mapper/{name}"),
        rw="randwrite",
        bs="16k",
        iodepth=8,
        size="96M",
        rate="1m",
        verify_backlog=64,
    )
    try:
        for _ in range(2):
            iraid("standby", volume.name)
            wait_for(lambda: as_the_gateway_says(disk, "ghost", "1"), "the path to be on standby", seconds=120)
            assert fio.running(), f"the load ended while no gateway served the volume: {fio.result()}"
            iraid("activate", volume.name)
            wait_for(lambda: as_the_gateway_says(disk, "ready", "50"), "the path to be optimized again", seconds=120)
        result = fio.result()
    finally:
        fio.end()
    assert result.read_bytes > 0 and result.written_bytes == 96 * MIB
    # Whoever looked at the map when fio closed it, udev for one, may have it open still.
    wait_for(lambda: attempt("multipath", "-F")[0] == 0, "the map to be free")
