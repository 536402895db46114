"""Secrets of members are nowhere but in their file: not in the memory of a process that has logged in (and so not in its core), its
command line, its environment, its log, nor in the answers and error texts of the control socket.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from iraid_dev.stack.private_gateway import Gateway, call, wait_until

pytestmark = [
    pytest.mark.no_sanitizer,  # it keeps copies of what was freed
    pytest.mark.timeout(60),
]
USER, SECRET = "gateway", "q7-planted-secret-Zx"
TARGET_USER, TARGET_SECRET = "backend", "w3-planted-proof-Ky"
PLANTED = re.compile(rb"planted-(?:secret|proof)")


def found_in_memory(pid: int) -> list[str]:
    """Where the secrets stand in the writable memory of a process, each with what is around it."""
    found = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+\s*(.*)", line)
            assert match
            begin, end, rights, name = int(match[1], 16), int(match[2], 16), match[3], match[4]
            if not rights.startswith("rw") or name in ("[vvar]", "[vsyscall]"):
                continue
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except OSError:  # reserved and never touched, or not to be read by anybody
                continue
            found += [
                f"{begin + hit.start():#x} {name}: {content[max(0, hit.start() - 32) : hit.end() + 16]!r}"
                for hit in PLANTED.finditer(content)
            ]
    return found


@pytest.fixture
def chap_file(tmp_path: Path) -> Path:
    path = tmp_path / "chap"
    path.write_text(f"{USER}\n{SECRET}\n{TARGET_USER}\n{TARGET_SECRET}\n")
    path.chmod(0o600)
    return path


def test_a_gateway_that_has_logged_in_holds_no_secret(gateway: Gateway, make_farm: Any, chap_file: Path) -> None:
    """Then all sessions end, and it logs in again: what it needs for that it still has."""
    farm = make_farm(3, chap=(USER, SECRET), proof=(TARGET_USER, TARGET_SECRET))
    gateway.must("create", "v0", "--level", "5", "--chap-file", str(chap_file), *farm.members())
    engine = gateway.engine
    assert engine is not None
    reaches(gateway, "active")
    assert found_in_memory(engine.pid) == []

    farm.kill(0)
    reaches(gateway, "degraded")
    farm.restart(0)
    reaches(gateway, "active")
    assert found_in_memory(engine.pid) == []

    for shown in ("cmdline", "environ"):
        assert not PLANTED.search(Path(f"/proc/{engine.pid}/{shown}").read_bytes())
    told = [call(gateway.socket, "volume.status", name="v0"), call(gateway.socket, "volume.list"), gateway.logs()]
    assert not PLANTED.search(repr(told).encode())


def reaches(gateway: Gateway, state: str) -> None:
    wait_until(lambda: call(gateway.socket, "volume.status", name="v0")["state"] == state, f"the volume to be {state}")


def test_a_login_that_fails_tells_and_keeps_no_secret(gateway: Gateway, make_farm: Any, chap_file: Path) -> None:
    """The target knows another secret: what is refused is told without either."""
    farm = make_farm(3, chap=(USER, "another-planted-secret"), proof=(TARGET_USER, TARGET_SECRET))
    refused = gateway.iraid("create", "v0", "--level", "5", "--chap-file", str(chap_file), *farm.members())
    assert refused.status != 0
    assert not PLANTED.search((refused.out + refused.err + gateway.logs()).encode())
    assert gateway.engine is not None
    assert found_in_memory(gateway.engine.pid) == []
