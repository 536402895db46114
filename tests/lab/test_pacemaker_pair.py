"""A pair of gateways whose roles Pacemaker gives: nobody does anything but strike the fault, and the initiator sees no error.
What is done is in pacemaker_faults.py.
"""

from __future__ import annotations

import json
import shutil

import pytest
from pacemaker_faults import FAULTS
from test_lab import ROOT, lab
from test_pair import pytestmark as of_a_pair

from iraid_dev.stack.private_gateway import build_folder

SET_UP_SECONDS, FAULT_SECONDS = 900, 900

pytestmark = [*of_a_pair, pytest.mark.long]


@pytest.mark.timeout(SET_UP_SECONDS + len(FAULTS) * FAULT_SECONDS + 60)
def test_pacemaker_moves_the_volume_and_the_initiator_only_waits(tmp_path):
    missing = [name for name in ("corosync", "pacemakerd", "pcs") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed: run scripts/deps --long")
    assert list(build_folder().rglob("handler_iraid.so")), f"no handler below {build_folder()}: run scripts/build"
    seconds = SET_UP_SECONDS + FAULT_SECONDS * len(FAULTS)
    state = tmp_path / "state"
    done = lab(
        *("--machines", "a,b,i", "--state", state, "--timeout", str(seconds), "--"),
        ROOT / "tests/lab/pacemaker_faults.py",
        timeout=seconds + 60,
    )
    shutil.rmtree(state / "members", ignore_errors=True)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [one["fault"] for one in seen] == list(FAULTS)
    for one in seen:
        assert one["writes"] > 100 and one["checked"] > 100, one
