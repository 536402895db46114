"""A pair of gateways and what befalls it: no error at the initiator, nothing acknowledged is lost, and nothing of a fenced
gateway reaches a member.  What is done is in pair_faults.py.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pair_doctor
import pytest
from pair_faults import FAULTS
from test_lab import ROOT, lab

from iraid_dev.stack.private_gateway import build_folder

SET_UP_SECONDS, FAULT_SECONDS = 300, 300

pytestmark = [
    pytest.mark.skipif(shutil.which("linux.uml") is None, reason="user-mode-linux is not installed; run scripts/deps"),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: no network namespaces"),
    pytest.mark.no_sanitizer,
]


def suffers(state: Path, path: str, *faults: str) -> None:
    assert list(build_folder().rglob("handler_iraid.so")), f"no handler below {build_folder()}: run scripts/build"
    seconds = SET_UP_SECONDS + FAULT_SECONDS * len(faults)
    done = lab(
        *("--machines", "a,b,i", "--state", state, "--timeout", str(seconds), "--"),
        *(ROOT / "tests/lab/pair_faults.py", "--path", path, *faults),
        timeout=seconds + 60,
    )
    shutil.rmtree(state / "members", ignore_errors=True)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [one["fault"] for one in seen] == list(faults)
    for one in seen:
        assert one["writes"] > 100 and one["checked"] > 100, one


@pytest.mark.timeout(SET_UP_SECONDS + 2 * FAULT_SECONDS + 60)
def test_a_volume_moves_and_outlives_its_gateway_s_kernel(tmp_path):
    suffers(tmp_path / "state", "multipath", "planned-move", "killed-kernel")


@pytest.mark.long
@pytest.mark.timeout(SET_UP_SECONDS + len(FAULTS) * FAULT_SECONDS + 60)
def test_no_fault_of_the_table_reaches_dm_multipath(tmp_path):
    suffers(tmp_path / "state", "multipath", *FAULTS)


@pytest.mark.long
@pytest.mark.timeout(SET_UP_SECONDS + len(FAULTS) * FAULT_SECONDS + 60)
def test_no_fault_of_the_table_reaches_a_single_path_whose_address_moves(tmp_path):
    suffers(tmp_path / "state", "address", *FAULTS)


@pytest.mark.long
@pytest.mark.timeout(SET_UP_SECONDS + FAULT_SECONDS + 60)
def test_doctor_compares_the_two_with_lio(tmp_path):
    seconds = SET_UP_SECONDS + FAULT_SECONDS
    done = lab(
        *("--machines", "a,b,i", "--state", tmp_path / "state", "--timeout", str(seconds), "--"),
        ROOT / "tests/lab/pair_doctor.py",
        timeout=seconds + 60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[-4:] == [step.__name__ for step in pair_doctor.STEPS], done.stdout


@pytest.mark.long
@pytest.mark.timeout(SET_UP_SECONDS + FAULT_SECONDS + 60)
def test_the_page_is_right_on_two_gateways_with_lio(tmp_path):
    seconds = SET_UP_SECONDS + FAULT_SECONDS
    done = lab(
        *("--machines", "gw1,gw2", "--state", tmp_path / "state", "--timeout", str(seconds), "--"),
        ROOT / "tests/lab/pair_page.py",
        timeout=seconds + 60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Active on" in done.stderr and "8 ok" in done.stderr, done.stderr
