"""The whole stack in the lab: a volume that LIO exports and a stock initiator writes to, the real exporter, Debian's
Prometheus with the shipped rules.  A member is killed: alerts fire; it is replaced and rebuilt: they clear.  Prints when.

    scripts/lab tests/end_to_end/test_alerts.py
"""

from __future__ import annotations

import prometheus
import pytest
from prometheus import HASTY_SECONDS, Exporter, Prometheus, Timeline, wait_for

from iraid_dev.stack.gateway import iraid
from iraid_dev.stack.load import Fio
from iraid_dev.stack.tools import PATIENCE

MIB = 1 << 20
WANTED = {"IraidMemberOut", "IraidVolumeDegraded", "IraidNoRedundancy"}

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(400 * PATIENCE),
    pytest.mark.skipif(bool(prometheus.missing()), reason=prometheus.missing() or "-"),
]


def test_alerts_fire_when_a_member_is_killed_and_clear_when_it_is_rebuilt(gateway, farm, tmp_path, capsys):
    def show(line: str) -> None:
        with capsys.disabled():
            print(line, flush=True)

    targets = farm(5, size_bytes=64 * MIB)
    volume = gateway.create(5, targets.members()[:4])
    volume.wait_resynced()
    disk = volume.login()
    fio = Fio(disk, rw="randrw", bs="64k", iodepth=4, size="32M", rate="1m", time_based=1, runtime=600)
    # A system call costs a hundred times the usual here: Prometheus looks every three seconds.
    with (
        Exporter("/run/iraid/control.sock", tmp_path) as exporter,
        Prometheus(tmp_path, exporter.address, hasten=True, interval_seconds=3) as prom,
    ):
        try:
            follow(targets, volume, Timeline(prom, show), prom)
        finally:
            fio.end()


def follow(targets, volume, line: Timeline, prom: Prometheus) -> None:
    wait_for(
        lambda: prom.query(f'iraid_volume_state{{volume="{volume.name}", state="active"}} == 1'), "the first scrape", 60
    )
    wait_for(lambda: prom.query('rate(iraid_command_bytes_total{op="write"}[15s]) > 0'), "the initiator's load", 60)
    line.wait(lambda firing: not firing & WANTED, "nothing to be wrong", 60)
    line.note(f"member 1 of {volume.name} is killed under load (rules wait for {HASTY_SECONDS} s here)")
    targets.kill(1)
    line.wait(lambda firing: WANTED <= firing, f"{WANTED} to fire", 90)
    line.note("it is replaced by another target: iraid replace")
    iraid("replace", volume.name, "1", targets.member(4))
    line.wait(lambda firing: not firing & WANTED, "all of them to clear", 180)
    line.note(f"the volume is {volume.status()['state']}")
    assert WANTED <= set(line.fired)
