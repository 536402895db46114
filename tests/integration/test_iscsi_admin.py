"""The administrator's blocking calls against a real tgtd: what they find, and what they say when they can't."""

from __future__ import annotations

import os
import struct
import subprocess
import time
from pathlib import Path

import fake_target as fake
import pytest

from iraid_dev.stack.farm import TargetFarm, TargetOptions

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("IRAID_BUILD_DIR", REPOSITORY / "build"))
INVALID, UNREACHABLE, LOGIN, UNFIT, IN_USE, IO = "145679"  # as the control socket numbers them

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(os.geteuid() != 0, reason="tgtd's control socket needs root"),
]


def admin(*words: str) -> dict[str, str]:
    """Runs admin_probe; its lines by their first word."""
    ran = subprocess.run(
        [str(BUILD / "tests/integration/admin_probe"), *words],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stderr
    said = dict(line.partition(" ")[::2] for line in ran.stdout.splitlines())
    assert ("error" in said) == (ran.returncode == 1)
    if "error" in said:
        assert said["message"] and said["remedy"]
    return said


def secrets_file(path: Path, secret: str) -> str:
    path.write_text(f"joe\n{secret}\n")
    path.chmod(0o600)
    return f"secrets={path}"


def test_a_disk_is_described(tmp_path) -> None:
    with TargetFarm(tmp_path, size_bytes=32 << 20, block_bytes=4096) as farm:
        said = admin("open", farm.member(0))
        serial = farm.targets[0].identity
    assert said["capacity"] == str(32 << 20) and said["block"] == "4096"
    assert (said["type"], said["writable"], said["fua"], said["reservations"]) == ("0", "1", "1", "1")
    assert (said["vendor"], said["product"], said["serial"]) == ("IET", "VIRTUAL-DISK", serial)
    assert said["identity"].startswith("naa.")


@pytest.mark.parametrize("tuned", [True, False], ids=["tuned", "untuned"])
def test_what_was_negotiated_is_known(tmp_path, tuned) -> None:
    with TargetFarm(tmp_path, tuned=tuned) as farm:
        said = admin("open", farm.member(0))
    expected = ("262144", "262144", "0", "1") if tuned else ("65536", "8192", "1", "1")
    assert (said["first_burst"], said["segment"], said["initial_r2t"], said["immediate_data"]) == expected


def test_two_luns_differ_and_two_portals_of_one_do_not(tmp_path) -> None:
    with TargetFarm(tmp_path, options=[TargetOptions(portals=2), TargetOptions()]) as farm:
        one, same, other = (
            admin("open", member)["identity"] for member in (farm.member(0), farm.member(0, which=1), farm.member(1))
        )
    assert one == same != other


def test_what_is_no_disk_is_described_and_not_written(tmp_path) -> None:
    with TargetFarm(tmp_path, device_type="cd") as farm:
        said = admin("open", farm.member(0))
        assert said["type"] == "5"
        said = admin("write", farm.member(0), "0", "4096", "1")
        assert said["error"] == UNFIT and "CD or DVD" in said["message"]


def test_a_read_only_lun_says_so(tmp_path) -> None:
    with TargetFarm(tmp_path, readonly=True) as farm:
        assert admin("open", farm.member(0))["writable"] == "0"
        said = admin("write", farm.member(0), "0", "4096", "1")
    assert said["error"] == UNFIT and "read-only" in said["message"]


@pytest.mark.parametrize("tuned", [True, False], ids=["tuned", "untuned"])
@pytest.mark.parametrize("length", [4096, 1 << 20, 5 << 20])
def test_writes_and_reads_of_any_length(tmp_path, tuned, length) -> None:
    with TargetFarm(tmp_path, tuned=tuned) as farm:
        wrote = admin("write", farm.member(0), "8192", str(length), "0x5a")
        content = farm.backing(0).read_bytes()
        assert content[8192 : 8192 + length] == b"\x5a" * length
        assert not any(content[:8192]) and not any(content[8192 + length :])
        assert admin("read", farm.member(0), "8192", str(length))["hash"] == wrote["hash"]


@pytest.mark.parametrize("byte", ["0xa7", "0x58"])
def test_data_that_looks_like_the_mark_of_an_empty_buffer_is_read(tmp_path, byte) -> None:
    """Nothing in a buffer tells that an answer has come: bytes of any kind are data."""
    with TargetFarm(tmp_path) as farm:
        wrote = admin("write", farm.member(0), "0", "4096", byte)
        assert admin("read", farm.member(0), "0", "4096")["hash"] == wrote["hash"]


def test_parts_of_blocks_are_refused(tmp_path) -> None:
    with TargetFarm(tmp_path, block_bytes=4096) as farm:
        said = admin("write", farm.member(0), "512", "4096", "1")
    assert said["error"] == INVALID and "whole blocks of 4096" in said["message"]


def test_a_lun_in_use_by_a_gateway_is_not_written(tmp_path) -> None:
    with TargetFarm(tmp_path) as farm:
        holder = subprocess.Popen(
            [str(BUILD / "tests/integration/backend_probe"), farm.member(0), "key=beef"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with holder:
            assert holder.stdin and holder.stdout
            holder.stdin.write("open\n")
            holder.stdin.flush()
            assert holder.stdout.readline().startswith("opened")
            said = admin("write", farm.member(0), "0", "4096", "1")
            assert said["error"] == IN_USE and "0x000000000000beef" in said["message"]
            assert "hash" in admin("read", farm.member(0), "0", "4096")  # reading is allowed
            # and looking at it has not disturbed the gateway
            holder.stdin.write("flush\n")
            holder.stdin.flush()
            assert holder.stdout.readline() == "flush 0 0 0\n"
            holder.stdin.close()


# Why it does not work


def test_nothing_listens_there(tmp_path) -> None:
    with TargetFarm(tmp_path) as farm:
        farm.kill(0)
        said = admin("open", farm.member(0))
        assert said["error"] == UNREACHABLE
        assert said["message"] == f"portal {farm.portal(0)}: connection refused"
        assert said["remedy"].startswith("check that the target runs")


def test_a_hung_target_costs_no_more_than_the_limit(tmp_path) -> None:
    with TargetFarm(tmp_path) as farm:
        farm.stop(0)
        begun = time.monotonic()
        said = admin("timeout_ms=700", "open", farm.member(0))
    assert said["error"] == UNREACHABLE and "no answer within 700 ms" in said["message"]
    assert 0.6 < time.monotonic() - begun < 3


def test_the_name_is_unknown() -> None:
    said = admin("timeout_ms=10000", "open", "no-such-host.invalid/iqn.2026-01.test:x/0")
    assert said["error"] == UNREACHABLE and "no-such-host.invalid" in said["message"]


def test_a_host_name_is_looked_up(tmp_path) -> None:
    with TargetFarm(tmp_path) as farm:
        assert admin("open", farm.member(0).replace("127.0.0.1", "localhost"))["type"] == "0"


def test_target_or_lun_is_not_there(tmp_path) -> None:
    with TargetFarm(tmp_path) as farm:
        said = admin("open", farm.member(0).replace(":t0", ":other"))
        assert said["error"] == LOGIN and "no such target" in said["message"]
        said = admin("open", farm.member(0)[:-1] + "5")
        assert said["error"] == UNFIT and "no LUN 5" in said["message"]


def test_chap_right_wrong_and_missing_are_told_apart(tmp_path) -> None:
    right = secrets_file(tmp_path / "right", "right secret 12")
    wrong = secrets_file(tmp_path / "wrong", "wrong secret 12")
    with TargetFarm(tmp_path / "farm", chap=("joe", "right secret 12")) as farm:
        assert admin(right, "open", farm.member(0))["type"] == "0"
        said = admin(wrong, "open", farm.member(0))
        assert said["error"] == LOGIN and "authentication failed" in said["message"]
        assert "joe" in said["remedy"] and "secret 12" not in str(said)
        said = admin("open", farm.member(0))
        assert said["error"] == LOGIN and "requires CHAP" in said["remedy"]


# What is there


def test_discovery_lists_targets_and_luns(tmp_path) -> None:
    with TargetFarm(tmp_path) as farm:
        assert admin("discover", farm.portal(0))["target"] == f"{farm.iqn(0)} {farm.portal(0)}"
        ran = subprocess.run(
            [str(BUILD / "tests/integration/admin_probe"), "luns", farm.member(0)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert ran.stdout == "lun 0\nlun 1\n"  # LUN 0 is tgtd's controller


def partitioned(size_bytes: int) -> bytes:
    """A disk's first MiB with a protective MBR: what libblkid calls a dos partition table."""
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0x83, b"\xff\xff\xff", 2048, size_bytes // 512 - 2048)
    return b"\0" * 446 + entry + b"\0" * 48 + b"\x55\xaa" + b"\0" * ((1 << 20) - 512)


@pytest.mark.parametrize(
    ("content", "offset", "finding"),
    [
        (None, 0, ""),
        (partitioned(64 << 20), 0, "dos partition table"),
        (b"\x53\xef", 1024 + 0x38, "ext"),
        (b"LABELONE" + b"\0" * 16 + b"LVM2 001", 512, ""),  # without its checksum it is none
        (struct.pack("<II", 0xA92B4EFC, 0), (64 << 20) - 65536, "linux_raid_member"),
    ],
    ids=["empty", "partitions", "ext2", "damaged LVM", "md at the end"],
)
def test_signatures_at_head_and_tail_are_found(tmp_path, content, offset, finding) -> None:
    with TargetFarm(tmp_path, size_bytes=64 << 20) as farm:
        with farm.backing(0).open("r+b") as backing:
            if finding == "ext":
                subprocess.run(["mke2fs", "-q", "-F", farm.backing(0)], check=True)
            elif content is not None:
                backing.seek(offset)
                backing.write(content)
        said = admin("signature", farm.member(0))["signature"]
    assert said.startswith(finding) if finding else said == ""


def _lies(command: fake.Command, *, about_writes: bool) -> fake.Reply | None:
    """Good with a response code: the target's iSCSI layer failed."""
    mine = command.is_write or command.is_sync if about_writes else command.is_read
    return fake.Reply(response=1) if mine else None


@pytest.mark.parametrize(
    "words", [("write", "{}", "4096", "4096", "7"), ("read", "{}", "0", "4096")], ids=["write", "read"]
)
def test_good_with_a_response_code_is_no_success(words) -> None:
    with fake.FakeTarget() as target:
        words = [word.format(target.member) for word in words]
        assert "error" not in admin(*words)
        target.rules.append(lambda command: _lies(command, about_writes=words[0] == "write"))
        assert admin(*words)["error"] == IO


def test_a_target_that_answers_no_write_is_given_up_in_time() -> None:
    with fake.FakeTarget() as target:
        target.rules.append(lambda command: fake.SILENCE if command.is_write else None)
        said = admin("timeout_ms=500", "write", target.member, "4096", "4096", "7")
        assert said["error"] == UNREACHABLE and "write" in said["message"]


class Cached:
    """A rule: writes stay in a volatile cache, also with FUA, as on LIO's file backstore; `flush` says what the first flush
    is answered with, and then the cache is empty."""

    def __init__(self, flush: fake.Reply | None = None) -> None:
        self.cached, self.flush = 0, flush

    def __call__(self, command: fake.Command) -> fake.Reply | None:
        if command.is_write:
            self.cached += len(command.data)
        if not command.is_sync:
            return None
        self.cached, answer, self.flush = 0, self.flush, None
        return answer


def test_what_is_written_to_a_lio_with_a_cache_is_flushed() -> None:
    cache = Cached()
    with fake.FakeTarget() as target:
        target.rules += [fake.vendor(b"LIO-ORG "), cache]
        assert "error" not in admin("write", target.member, "0", "4096", "1")
        assert not cache.cached


@pytest.mark.parametrize(
    "reply",
    [fake.sense(2, 0x0800), fake.sense(0xB, 0), fake.sense(6, 0x2901)],
    ids=["LIO's not ready 08/00", "aborted, and no more", "power on"],
)
def test_a_flush_that_fails_once_is_told(reply) -> None:
    """Repeated it would be GOOD, and what was written is gone."""
    with fake.FakeTarget(fua=False) as target:
        target.rules.append(Cached(flush=reply))
        assert "error" in admin("write", target.member, "0", "4096", "1")
