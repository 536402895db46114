"""iraid doctor, monitor and support on a whole gateway with systemd, LIO and tcmu-runner, which is broken in many ways."""

from __future__ import annotations

import pytest
import systems

pytestmark = [
    pytest.mark.skipif(systems.missing() is not None, reason=str(systems.missing())),
    pytest.mark.long,
    pytest.mark.timeout(900),
]


def test_what_breaks_a_gateway_is_found_told_and_gathered(tmp_path, capsys):
    image = tmp_path / "disk.img"
    systems.make(image, tmp_path / "made").good()
    done = systems.boot(image, tmp_path / "doctor", "doctor", systems.BUILD, options=("--timeout", "500"))
    with capsys.disabled():
        print("\n" + "\n".join(line for line in done.output.splitlines() if line.startswith(("FOUND", "MISSED"))))
    assert done.good().figures["findings"] == 15
    image.unlink()
