"""The Ansible role with a pair of gateways that have kernels of their own: made, moved and upgraded under an initiator.

    scripts/test tests/lab/test_ansible_pair.py -m long

Without a kernel, and with what is refused: tests/integration/test_ansible_pair.py.  What runs beside the machines is
ansible_pair_inside.py.
"""

from __future__ import annotations

import os
import shutil

import pytest
from test_lab import lab

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not all(map(shutil.which, ("linux.uml", "ansible-playbook", "multipathd"))),
        reason="one of linux.uml, ansible-playbook, multipathd is not installed; run scripts/deps --long",
    ),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: no network namespaces"),
    pytest.mark.timeout(1900),
]


def test_a_pair_is_made_moved_and_upgraded_under_an_initiator(tmp_path):
    inside = [
        "/usr/bin/python3",
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        "tests/lab/ansible_pair_inside.py",
    ]
    state = tmp_path / "state"
    done = lab("--machines", "a,b,i", "--state", state, "--timeout", "1800", "--", *inside, timeout=1850)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
