"""Who may use an export, with the kernel's target and open-iscsi: secrets of both sides, discovery, readers, new secrets."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from disk_bytes import get, put

from iraid_dev.stack import initiator
from iraid_dev.stack.tools import IRAID, attempt, free_port, run

REFUSED = 24  # iscsiadm: the login failed because of authorization
MIB = 1 << 20
DISCOVERY = Path("/sys/kernel/config/target/iscsi/discovery_auth/enforce_discovery_auth")
OURS, THEIRS = ("client", "wolf-howls-42"), ("gateway", "owl-hoots-4242")


@dataclass
class Target:
    volume: str
    iqn: str
    portal: str
    secrets: Path

    def export(self, *options: str) -> dict:
        words = ("--iqn", self.iqn, "--portal", self.portal)
        return json.loads(run(IRAID, "export", self.volume, *words, *options, "--json"))

    def secret(self, *lines: str) -> tuple[str, str]:
        """The option that names a file of these lines."""
        self.secrets.touch(0o600)
        self.secrets.write_text("".join(f"{line}\n" for line in lines))
        return "--chap-file", str(self.secrets)

    def try_login(self, ours: tuple[str, str] = (), theirs: tuple[str, str] = ()) -> tuple[int, str]:
        """ours: user and secret of the initiator; theirs: those by which the target is to prove itself."""
        node = ("iscsiadm", "-m", "node", "-T", self.iqn, "-p", self.portal)
        attempt(*node, "-o", "delete")
        run(*node, "-o", "new")
        settings = {"authmethod": "CHAP"} if ours else {}
        settings |= dict(zip(("username", "password"), ours, strict=False))
        settings |= dict(zip(("username_in", "password_in"), theirs, strict=False))
        for name, value in settings.items():
            run(*node, "-o", "update", "-n", f"node.session.auth.{name}", "-v", value)
        run(*node, "-o", "update", "-n", "node.session.initial_login_retry_max", "-v", "1")
        return attempt(*node, "--login", seconds=60)

    def session(self) -> str:
        """Its number: another one means that it was logged in anew."""
        sessions = Path("/sys/class/iscsi_session").glob("session*")
        (found,) = (path.name for path in sessions if (path / "targetname").read_text().strip() == self.iqn)
        return found

    @contextlib.contextmanager
    def logged_in(self, *secrets: tuple[str, str]) -> Iterator[str]:
        """The disk's path."""
        status, text = self.try_login(*secrets)
        assert status == 0, text
        try:
            yield initiator.disk_of(self.iqn)
        finally:
            run("iscsiadm", "-m", "node", "-T", self.iqn, "--logout")


@pytest.fixture
def target(shared_volume: Callable, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Target]:
    """One of its own, with a volume that is there for all tests."""
    volume = shared_volume(5, 4)
    number = f"{os.getpid()}-{abs(hash(request.node.name)) % 10000}"
    made = Target(
        volume.name, f"iqn.2026-01.org.iraid.test:access-{number}", f"127.0.0.1:{free_port()}", tmp_path / "secrets"
    )
    yield made
    attempt("iscsiadm", "-m", "node", "-T", made.iqn, "-o", "delete")
    attempt(IRAID, "unexport", volume.name, "--iqn", made.iqn, "--force")


def test_both_sides_prove_who_they_are(target):
    made = target.export("--acl", initiator.name(), *target.secret(*OURS, *THEIRS))
    assert made["authentication"] and made["mutual_authentication"] == [initiator.name()]
    assert target.try_login()[0] == REFUSED
    assert target.try_login(("client", "cat-purrs-4242"))[0] == REFUSED
    assert target.try_login(OURS, ("gateway", "cat-purrs-4242"))[0] != 0
    with target.logged_in(OURS):  # it does not ask the target to prove itself
        pass
    with target.logged_in(OURS, THEIRS) as disk:
        assert len(get(disk, 4096, 0)) == 4096


def test_a_new_secret_does_not_end_sessions_and_counts_from_the_next_login_on(target):
    new = ("client", "cat-purrs-4242")
    target.export("--acl", initiator.name(), *target.secret(*OURS))
    with target.logged_in(OURS) as disk:
        session = target.session()
        target.export("--acl", initiator.name(), *target.secret(*new))
        written = os.urandom(MIB)
        put(disk, written, 0)
        assert get(disk, MIB, 0) == written and target.session() == session
    assert target.try_login(OURS)[0] == REFUSED
    with target.logged_in(new) as disk:
        assert len(get(disk, MIB, 0)) == MIB


def test_who_may_only_read_can_not_write_also_while_it_is_logged_in(target):
    target.export("--acl", initiator.name(), "--no-chap")
    with target.logged_in() as disk:
        kept = os.urandom(MIB)
        put(disk, kept, 0)
        made = target.export("--acl-read-only", initiator.name(), "--no-chap")
        assert made["read_only"] == [initiator.name()]
        with pytest.raises(OSError):
            put(disk, bytes(MIB), 0)
        status, text = attempt("sg_write_same", "--16", "--unmap", "--lba=0", "--num=8", "--xferlen=512", disk)
        assert status != 0 and "protect" in text.lower(), text
        assert get(disk, MIB, 0) == kept
    words = ("--iqn", target.iqn, "--acl", initiator.name(), "--no-chap")
    status, text = attempt(IRAID, "export", target.volume, *words)
    assert status == 1 and "may only read LUN 0" in text, text


def test_discovery_asks_for_a_secret(target, tmp_path):
    finder = tmp_path / "finder"
    finder.touch(0o600)
    finder.write_text("finder\ncat-purrs-4242\n")
    target.export("--acl", initiator.name(), "--no-chap", "--discovery-chap-file", str(finder))
    database = ("iscsiadm", "-m", "discoverydb", "-t", "st", "-p", target.portal)
    try:
        assert attempt("iscsiadm", "-m", "discovery", "-t", "st", "-p", target.portal, seconds=60)[0] != 0
        run(*database, "-o", "new")
        for name, value in (("authmethod", "CHAP"), ("username", "finder"), ("password", "cat-purrs-4242")):
            run(*database, "-o", "update", "-n", f"discovery.sendtargets.auth.{name}", "-v", value)
        assert target.iqn in run(*database, "--discover")
    finally:
        attempt(*database, "-o", "delete")
        DISCOVERY.write_text("0")
