"""Wrong input, wrong targets, wrong members: refused by name, with a remedy, and nothing is changed."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iraid_dev.stack.farm import TargetFarm, TargetOptions
from iraid_dev.stack.private_gateway import IRAID, PYTHON, ROOT, Gateway, Ran, wait_until
from iraid_dev.stack.reader import COPIES, NotAMember, VolumeReader, digest

MIB = 1 << 20
SIZE = 24 * MIB  # hashed often
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
MakeFarm = Callable[..., TargetFarm]
pytestmark = pytest.mark.sanitized_alone


@pytest.fixture
def farm(make_farm: MakeFarm) -> TargetFarm:
    return make_farm(3, size_bytes=SIZE)


def state_of(farm: TargetFarm, gateway: Gateway) -> dict[str, str]:
    """All that a refusal must leave alone: members, and what the gateway keeps of volumes."""
    files = [farm.backing(number) for number in range(len(farm))]
    files += [path for path in gateway.config.rglob("*") if path.is_file()]
    return {str(path): digest(path) for path in files}


@contextmanager
def nothing_changes(farm: TargetFarm, gateway: Gateway) -> Iterator[None]:
    before = state_of(farm, gateway)
    yield
    assert state_of(farm, gateway) == before


def check_refusal(ran: Ran, *words: str, status: int = 1) -> None:
    """It says what, which value, and what to do."""
    assert ran.status == status, ran
    assert not ran.out, ran
    assert ran.err.startswith("iraid: ") and "\n  remedy: " in ran.err, ran
    for word in words:
        assert word in ran.err, (word, str(ran))


def refuse_create(
    gateway: Gateway,
    farm: TargetFarm,
    members: list[str],
    *words: str,
    options: tuple[str, ...] = (),
    name: str = "v0",
    level: str = "5",
    status: int = 1,
) -> None:
    with nothing_changes(farm, gateway):
        ran = gateway.iraid("create", name, "--level", level, *options, *members)
        check_refusal(ran, *words, status=status)
    assert not list(gateway.config.glob(f"volumes/{name}*"))


# What is typed


@pytest.mark.parametrize(
    "changed, words, status",
    [({"level": "7"}, ("'7'", "0 (S-iRAID, striped), 1 (copies), 5 (P-iRAID, parity)", "10 (striped copies)"), 2),
     ({"options": ("--chunk", "3K")}, ("3072", "power of two"), 1),
     ({"options": ("--chunk", "2M")}, ("2097152", "1048576"), 1),
     ({"options": ("--chunk", "many")}, ("many",), 2),
     ({"name": "a/b"}, ("a/b", "letters, digits"), 1),
     ({"name": "a:b"}, ("a:b", "letters, digits"), 1),
     ({"name": "x" * 64}, ("x" * 64, "63"), 1),
     ({"name": "..",}, ("..", "begin"), 1),
     ({"options": ("--initiator", "disk")}, ("disk",), 2),
     ({"options": ("--give-up", "0")}, ("0",), 2)],
)  # fmt: skip
def test_values_that_cannot_be_are_refused(
    gateway: Gateway, farm: TargetFarm, changed: dict, words: tuple[str, ...], status: int
) -> None:
    refuse_create(gateway, farm, farm.members(), *words, status=status, **changed)


def test_too_few_and_malformed_members_are_refused(gateway: Gateway, farm: TargetFarm) -> None:
    members = farm.members()
    refuse_create(gateway, farm, members[:2], "level 5 needs 3 to 32", "2 were given")
    refuse_create(gateway, farm, members[:1], "level 0 needs 2 to 32", "1 were given", level="0")
    refuse_create(gateway, farm, members[:1], "level 1 needs 2 to 4", "1 were given", level="1")
    refuse_create(gateway, farm, members[:3] + members[:2], "level 1 needs 2 to 4", "5 were given", level="1")
    refuse_create(gateway, farm, members, "level 6 needs 4 to 32", "3 were given", level="6")
    refuse_create(gateway, farm, members[:2], "level 10 needs 3 to 32", "2 were given", level="10")
    refuse_create(gateway, farm, members[:2] * 17, "34 were given")
    refuse_create(gateway, farm, [*members[:2], members[0]], members[0], "given twice")
    for broken in (
        "10.0.0.1",
        "10.0.0.1/iqn.2026-01.org.example:t0",
        "/iqn.2026-01.org.example:t0/0",
        "10.0.0.1:99999/iqn.2026-01.org.example:t0/0",
        "10.0.0.1/iqn.2026-01.org.example:t0/x",
    ):
        refuse_create(gateway, farm, [*members[:2], broken], broken, "PORTAL/IQN/LUN")


def test_a_name_that_is_taken_is_refused(gateway: Gateway, farm: TargetFarm, make_farm: MakeFarm) -> None:
    gateway.create("v0", farm.members())
    gateway.must("stop", "v0")
    more = make_farm(3, size_bytes=SIZE)
    with nothing_changes(more, gateway):
        check_refusal(gateway.iraid("create", "v0", "--level", "5", "--force", *more.members()), '"v0"')


@pytest.mark.parametrize("command", [("status",), ("start",), ("stop",), ("delete", "--yes")])
def test_a_volume_that_is_not_there_is_named(gateway: Gateway, command: tuple[str, ...]) -> None:
    check_refusal(gateway.iraid(command[0], "v9", *command[1:]), "v9", "iraid list")


# Targets


def test_sizes_that_differ_are_a_warning(gateway: Gateway, make_farm: MakeFarm) -> None:
    """The smallest counts, and all of it; of the others' surplus nothing is used."""
    farm = make_farm(options=[TargetOptions(size_bytes=size * MIB) for size in (40, 24, 32)])
    ran = gateway.must("create", "v0", "--level", "5", "--json", *farm.members())
    assert "warning" in ran.err and "sizes of the members differ" in ran.err and farm.member(1) in ran.err
    reader = VolumeReader([farm.backing(number) for number in range(3)])
    assert ran.json["size_bytes"] == reader.size <= 2 * 24 * MIB
    for superblock in reader.superblocks().values():
        assert superblock.data.offset + superblock.data.length <= 24 * MIB


def test_a_target_that_does_not_answer_is_named(gateway: Gateway, farm: TargetFarm) -> None:
    gone = farm.member(2)
    farm.kill(2)
    refuse_create(gateway, farm, farm.members(), gone.split("/")[0], "refused")
    check_refusal(gateway.iraid("discover", farm.portal(2)), farm.portal(2))
    check_refusal(gateway.iraid("examine", gone), farm.portal(2))


def test_a_target_that_hangs_is_named(gateway: Gateway, farm: TargetFarm) -> None:
    farm.stop(2)
    refuse_create(gateway, farm, farm.members(), farm.portal(2), "no answer")
    farm.cont(2)


def test_a_target_that_refuses_login_is_named(gateway: Gateway, farm: TargetFarm) -> None:
    """tgt's way to say so is that there is no such target."""
    target = ("--mode", "target", "--tid", str(farm.targets[1].tid))
    farm.admin(1, *target, "--op", "unbind", "--initiator-address", "ALL")
    farm.admin(1, *target, "--op", "bind", "--initiator-name", "iqn.2026-01.org.example:somebody-else")
    refuse_create(gateway, farm, farm.members(), farm.member(1).split("/")[1], "initiator")
    unknown = farm.member(0).replace(":t0-", ":nobody-")
    refuse_create(gateway, farm, [unknown, *farm.members()[1:]], ":nobody-")
    no_lun = farm.member(0)[:-1] + "9"
    refuse_create(gateway, farm, [no_lun, farm.member(2), farm.member(0)], no_lun)


def secrets(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / f"secrets{len(list(folder.iterdir()))}"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_only_the_right_chap_secret_is_accepted(gateway: Gateway, make_farm: MakeFarm, tmp_path: Path) -> None:
    """None, wrong user, wrong secret, a file that others can read; then the right one."""
    farm = make_farm(3, size_bytes=SIZE, chap=("gateway", "correct-secret"))
    members, folder = farm.members(), tmp_path / "secrets"
    folder.mkdir()
    refuse_create(gateway, farm, members, members[0], "uthentication")
    for text in ("gateway\nwrong-secret-x\n", "nobody\ncorrect-secret\n"):
        refuse_create(
            gateway, farm, members, members[0], "uthentication", options=("--chap-file", str(secrets(folder, text)))
        )
    open_to_all = secrets(folder, "gateway\ncorrect-secret\n", 0o644)
    refuse_create(gateway, farm, members, str(open_to_all), "0600", options=("--chap-file", str(open_to_all)))
    refuse_create(gateway, farm, members, "one-line", options=("--chap-file", str(tmp_path / "one-line")))
    good = secrets(folder, "gateway\ncorrect-secret\n")
    gateway.create("v0", members, 5, "64K", "--chap-file", str(good))
    wait_until(lambda: gateway.status("v0")["state"] == "active", "the login with the secret")
    assert "correct-secret" not in gateway.logs()
    assert not any(
        "correct-secret" in path.read_text()
        for path in [*gateway.config.rglob("*.conf"), *gateway.state.iterdir()]
        if path.is_file()
    )


def test_what_is_no_disk_is_refused(gateway: Gateway, farm: TargetFarm) -> None:
    number = farm.add(TargetOptions(size_bytes=SIZE, device_type="cd"))
    refuse_create(gateway, farm, [*farm.members()[:2], farm.member(number)], farm.member(number), "not a disk")


def test_a_read_only_lun_is_refused(gateway: Gateway, farm: TargetFarm) -> None:
    number = farm.add(TargetOptions(size_bytes=SIZE, readonly=True))
    refuse_create(gateway, farm, [*farm.members()[:2], farm.member(number)], farm.member(number), "read-only")


def test_block_sizes_that_differ_are_refused(gateway: Gateway, farm: TargetFarm) -> None:
    number = farm.add(TargetOptions(size_bytes=SIZE, block_bytes=4096))
    refuse_create(gateway, farm, [*farm.members()[:2], farm.member(number)], farm.member(number), "4096", "512")


def test_a_lun_that_is_too_small_is_refused(gateway: Gateway, farm: TargetFarm) -> None:
    number = farm.add(TargetOptions(size_bytes=8 * MIB))
    refuse_create(
        gateway, farm, [*farm.members()[:2], farm.member(number)], farm.member(number), str(8 * MIB), "16 MiB"
    )


def test_one_lun_under_two_portals_is_refused(gateway: Gateway, make_farm: MakeFarm) -> None:
    farm = make_farm(2, size_bytes=SIZE, portals=2)
    twice = [farm.member(0), farm.member(1), farm.member(0, which=1)]
    refuse_create(gateway, farm, twice, farm.member(0), farm.member(0, which=1), "same")
    refuse_create(gateway, farm, twice, farm.member(0, which=1), options=("--force",))


# Members that hold something


def test_a_member_of_another_volume_is_refused(
    gateway: Gateway, make_gateway: Callable[[], Gateway], make_farm: MakeFarm
) -> None:
    """Refused by force too where the gateway has that volume; elsewhere only without force."""
    farm = make_farm(5, size_bytes=SIZE)
    members = farm.members()
    gateway.create("v0", members[:3])
    gateway.must("stop", "v0")
    wanted = members[2:]
    for options in ((), ("--force",)):
        refuse_create(gateway, farm, wanted, members[2], '"v0"', name="v1", options=options)
    stranger = make_gateway()
    stranger.start()
    refuse_create(stranger, farm, wanted, members[2], '"v0"', "--force", name="v1")
    stranger.create("v1", wanted, 5, "64K", "--force")
    stranger.must("stop", "v1")
    # The first gateway finds out.
    gateway.configure("v0", assembly_wait_seconds=1)
    gateway.must("start", "v0")
    status = gateway.status("v0")
    assert status["state"] == "degraded"
    assert "another volume" in status["members"][2]["reason"]


def by_tool(*words: str) -> Callable[[Path], None]:
    return lambda path: (
        subprocess.run(
            [*words, str(path)],
            check=True,
            capture_output=True,
            env=os.environ | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )
        and None
    )


def dos_table(path: Path, kind: int = 0x83) -> None:
    """One partition over the whole disk."""
    entry = struct.pack("<8B2I", 0, 0, 2, 0, kind, 0xFF, 0xFF, 0xFF, 1, SIZE // 512 - 1)
    with path.open("r+b") as file:
        file.seek(446)
        file.write(entry + bytes(48) + b"\x55\xaa")


def gpt(path: Path) -> None:
    """Both headers and the table of a disk with one partition (UEFI 2.10, section 5.3)."""
    last = SIZE // 512 - 1
    table = struct.pack("<16s16sQQQ72s", uuid.uuid4().bytes_le, uuid.uuid4().bytes_le, 64, last - 64, 0,
                        "data".encode("utf-16-le")).ljust(128 * 128, b"\0")  # fmt: skip
    disk = uuid.uuid4().bytes_le
    dos_table(path, 0xEE)
    with path.open("r+b") as file:
        for here, other, entries in ((1, last, 2), (last, 1, last - 32)):
            fields = [b"EFI PART", 0x10000, 92, 0, 0, here, other, 34, last - 33, disk, entries, 128, 128,
                      zlib.crc32(table)]  # fmt: skip
            fields[3] = zlib.crc32(struct.pack("<8s4I4Q16sQ3I", *fields))
            file.seek(here * 512)
            file.write(struct.pack("<8s4I4Q16sQ3I", *fields))
            file.seek(entries * 512)
            file.write(table)


@pytest.mark.parametrize(
    "make, word",
    [(by_tool("mkfs.ext4", "-q", "-F"), "ext4"), (by_tool("mkswap"), "swap"), (gpt, "gpt"),
     (dos_table, "dos")],
    ids=["ext4", "swap", "gpt", "dos"],
)  # fmt: skip
def test_a_signature_is_refused_without_force(
    gateway: Gateway, farm: TargetFarm, make: Callable[[Path], None], word: str
) -> None:
    make(farm.backing(1))
    assert word in gateway.must("examine", farm.member(1)).out
    refuse_create(gateway, farm, farm.members(), farm.member(1), word, "--force")
    gateway.create("v0", farm.members(), 5, "64K", "--force")
    gateway.must("delete", "v0", "--yes")
    seen = gateway.must("examine", farm.member(1), "--json").json["members"][0]
    assert seen["signature"] is None and seen["superblock"] is None


def damage(path: Path, which: str, how: str) -> None:
    """One copy of the superblock: a bit flipped, or the second half of its block never written."""
    with path.open("r+b") as file:
        if how == "flipped":
            file.seek(COPIES[which] + 200)
            byte = file.read(1)[0]
            file.seek(COPIES[which] + 200)
            file.write(bytes([byte ^ 4]))
        else:
            file.seek(COPIES[which] + 1024)
            file.write(bytes(3072))


@pytest.mark.parametrize("how", ["flipped", "truncated"])
def test_damaged_superblocks_are_told_and_not_overwritten(gateway: Gateway, farm: TargetFarm, how: str) -> None:
    """One copy: said by examine, and no harm.  Both: the member is out, and not quietly overwritten."""
    gateway.create("v0", farm.members())
    gateway.configure("v0", assembly_wait_seconds=1)
    for which in COPIES:
        gateway.must("stop", "v0")
        damage(farm.backing(1), which, how)
        seen = gateway.must("examine", farm.member(1), "--json").json["members"][0]
        other = "b" if which == "A" else "a"
        assert "corrupt" in seen["copies"][which.lower()] and seen["copies"][other] == "ok"
        gateway.must("start", "v0")
        assert gateway.status("v0")["state"] == "active"
    gateway.must("stop", "v0")
    for which in COPIES:
        damage(farm.backing(1), which, how)
    with pytest.raises(NotAMember):
        VolumeReader([farm.backing(1)])
    before = farm.backing(1).read_bytes()
    assert "corrupt" in gateway.must("examine", farm.member(1)).out
    gateway.must("start", "v0")
    status = gateway.status("v0")
    assert status["state"] == "degraded"
    assert "superblock" in status["members"][1]["reason"]
    gateway.must("stop", "v0")
    assert farm.backing(1).read_bytes() == before
    more = [farm.member(farm.add(TargetOptions(size_bytes=SIZE))) for _ in range(2)]
    shutil.move(gateway.config / "volumes/v0.conf", gateway.folder)  # forgotten, not deleted
    refuse_create(gateway, farm, [farm.member(1), *more], farm.member(1), "corrupt", "--force", name="v1")


def test_a_lun_that_has_shrunk_is_left_out_and_named(gateway: Gateway, farm: TargetFarm) -> None:
    gateway.create("v0", farm.members())
    gateway.configure("v0", assembly_wait_seconds=1)
    gateway.must("stop", "v0")
    farm.kill(1)
    farm.resize_file(1, SIZE // 2)
    farm.restart(1)
    assert "degraded" in gateway.must("start", "v0", "--timeout", "20").out
    (member,) = (member for member in gateway.status("v0")["members"] if member["reason"])
    assert "has changed" in member["reason"]
    assert str(SIZE // 2) in member["reason"] and str(SIZE) in member["reason"]
    gateway.must("stop", "v0")


# The command itself


def test_a_socket_that_is_not_there_is_named(make_gateway: Callable[[], Gateway]) -> None:
    gateway = make_gateway()
    check_refusal(gateway.iraid("list"), str(gateway.socket), "does not exist", "tcmu-runner")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(gateway.socket))
    check_refusal(gateway.iraid("list"), str(gateway.socket), "no program listens")
    check_refusal(gateway.iraid("--socket", "/nonexistent/socket", "list"), "/nonexistent/socket")


@pytest.fixture
def public_command() -> Iterator[Path]:
    """A copy of the command where nobody may read it."""
    with tempfile.TemporaryDirectory(prefix="iraid-public-") as path:
        os.chmod(path, 0o755)
        shutil.copytree(ROOT / "python", Path(path) / "python")
        (Path(path) / "scripts").mkdir()
        yield Path(shutil.copy(IRAID, Path(path) / "scripts"))


def test_who_is_not_root_is_refused(gateway: Gateway, public_command: Path) -> None:
    """The socket's mode keeps others out; and if somebody opens it to all, the program does."""

    def list_as_nobody() -> Ran:
        words = [*NOBODY, PYTHON, "-B", str(public_command), "--socket", str(gateway.socket), "list"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        return Ran(("list",), done.returncode, done.stdout, done.stderr)

    assert gateway.socket.stat().st_mode & 0o777 == 0o600
    check_refusal(list_as_nobody(), str(gateway.socket), "permission denied", "as root")
    for folder in (gateway.sockets, gateway.sockets.parent):
        folder.chmod(0o755)
    check_refusal(list_as_nobody(), str(gateway.socket), "permission denied", "as root")
    gateway.socket.chmod(0o666)
    check_refusal(list_as_nobody(), "root")
    gateway.must("list")
