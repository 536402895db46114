"""Secrets are not in the core of a tcmu-runner that dies, nor in its log or command line."""

from __future__ import annotations

import re
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

PATTERN = Path("/proc/sys/kernel/core_pattern")
USER, SECRET = "gateway", "q7-planted-secret-Zx"
TARGET_USER, TARGET_SECRET = "backend", "w3-planted-proof-Ky"
PLANTED = re.compile(rb"planted-(?:secret|proof)")


@pytest.fixture
def cores(memory_folder: Path) -> Iterator[Path]:
    """Where the kernel puts them."""
    before = PATTERN.read_text()
    PATTERN.write_text(f"{memory_folder}/core-%p")
    yield memory_folder
    PATTERN.write_text(before)


@pytest.mark.no_sanitizer  # it keeps copies of what was freed, and no core
@pytest.mark.timeout(240)
def test_the_core_of_a_runner_that_has_logged_in_holds_no_secret(gateway, farm, cores: Path, log_folder: Path) -> None:
    chap_file = cores / "chap"
    chap_file.write_text(f"{USER}\n{SECRET}\n{TARGET_USER}\n{TARGET_SECRET}\n")
    chap_file.chmod(0o600)
    targets = farm(3, chap=(USER, SECRET), proof=(TARGET_USER, TARGET_SECRET))
    gateway.create(5, targets.members(), "--chap-file", str(chap_file)).login()
    runner = gateway.runner.process
    commands = Path(f"/proc/{runner.pid}/cmdline").read_bytes() + Path(f"/proc/{runner.pid}/environ").read_bytes()
    resource.prlimit(runner.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    runner.send_signal(signal.SIGABRT)
    runner.wait()
    gateway.runner.process = None
    gateway.runner.start()

    core = (cores / f"core-{runner.pid}").read_bytes()
    assert targets.iqn(0).encode() in core, "this is not the memory of a runner with members"
    said = b"".join(path.read_bytes() for path in log_folder.iterdir() if path.is_file())
    for where, content in (("core", core), ("log", said), ("command line or environment", commands)):
        assert not PLANTED.search(content), f"a secret is in the {where}"
