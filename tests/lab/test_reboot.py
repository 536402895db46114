"""A gateway with systemd is rebooted: targetcli's saved configuration brings the LUN back.

Two boots of the lab on one image; the members' files are on it too.  Many reboots: reboots.py.
"""

from __future__ import annotations

import pytest
import systems

pytestmark = [
    pytest.mark.skipif(systems.missing() is not None, reason=str(systems.missing())),
    pytest.mark.timeout(600),
]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param([], id="shut down in order", marks=pytest.mark.long),
        pytest.param(["--power-cut"], id="power cut", marks=pytest.mark.long),
    ],
)
def test_the_lun_is_back_with_its_data_after_a_reboot(tmp_path, end):
    image = tmp_path / "disk.img"

    first = systems.make(image, tmp_path / "first", options=tuple(end)).good()
    second = systems.boot(image, tmp_path / "second", "check-volume", 2, options=tuple(end)).good()

    assert first.off_seconds is not None
    assert (second.figures["suspect_regions"] == 0) == (not end)  # marked clean, unless the power was cut
    image.unlink()  # hundreds of MiB; kept when something failed
