"""A disk that a guest boots from, and that tells whether it was read right: Debian's kernel, an initramfs of busybox with
tests/lab/guest/boot-init in it, and files of random bytes.

    sector 0         GRUB's first sector and the partition table: what a BIOS boots from
    sector 1         the rest of that GRUB, in front of the first partition
    partition 1      FAT, with EFI/BOOT/BOOTX64.EFI: what UEFI boots from
    partition 2      ext4: /boot/vmlinuz, /boot/initrd, and FILES files in /data

The sums of the files are in the initramfs.  In there is also a file of random bytes, that is there to be read: the boot
loader has to fetch it through the firmware, and the kernel has no other sum of its initramfs.
"""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from iraid_dev.lab.qemu import debian_kernels

MIB = 1 << 20
SECTOR_BYTES = 512
FIRST_SECTOR = 2048  # of partition 1
EFI_BYTES = 16 * MIB
ROOT_BYTES = 232 * MIB
IMAGE_BYTES = FIRST_SECTOR * SECTOR_BYTES + EFI_BYTES + ROOT_BYTES
FILES, FILE_BYTES = 64, 1 * MIB
LOADED_BYTES = 8 * MIB
LABEL = "guestroot"

INIT = Path(__file__).parent / "guest/boot-init"
BOOT_CODE = Path("/usr/lib/grub/i386-pc/boot.img")
EFI_GRUB = Path("/usr/lib/grub/x86_64-efi")
BOOT_CODE_BYTES = 440  # then comes the partition table with its signature
GRUB_MODULES = "part_msdos ext2 search search_label linux serial terminal echo boot".split()
LOADER = f"""\
serial --unit=0 --speed=115200
terminal_output serial
search --no-floppy --label {LABEL} --set root
echo guest: the loader reads the kernel
linux /boot/vmlinuz console=ttyS0 loglevel=5 panic=1 no_timer_check
echo guest: the loader reads the initramfs
initrd /boot/initrd
echo guest: the kernel starts
boot
"""
MODULES = "crc32c_generic virtio_pci virtio_scsi sd_mod ext4 virtio_net iscsi_tcp iscsi_ibft".split()
ISCSISTART = Path("/sbin/iscsistart")

# Program or file, and the package that brings it.
NEEDED = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "busybox": "busybox-static",
    "grub-mkimage": "grub-common",
    "mkfs.vfat": "dosfstools",
    "mcopy": "mtools",
    "sfdisk": "fdisk",
    "cpio": "cpio",
    "debugfs": "e2fsprogs",
    str(ISCSISTART): "open-iscsi",
    str(BOOT_CODE): "grub-pc-bin",
    str(EFI_GRUB / "modinfo.sh"): "grub-efi-amd64-bin",
}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def missing(needed: dict[str, str]) -> str:
    """What of it is not there, and where it comes from; empty when all is."""
    absent = sorted(
        f"{what} (package {package})"
        for what, package in needed.items()
        if not (Path(what).exists() if what.startswith("/") else shutil.which(what, path=PATH))
    )
    if not debian_kernels():
        absent.append("a kernel of Debian in /boot (package linux-image-amd64)")
    return f"missing: {', '.join(absent)}; run scripts/deps --long --qemu" if absent else ""


@dataclass(frozen=True)
class GuestImage:
    path: Path
    sums: dict[str, str]  # of the files in /data


def make(folder: Path, seed: int = 1) -> GuestImage:
    folder.mkdir()
    chance = random.Random(seed)
    root = folder / "root"
    (root / "data").mkdir(parents=True)
    (root / "boot").mkdir()
    sums = {}
    for number in range(FILES):
        data = chance.randbytes(FILE_BYTES)
        (root / f"data/{number}").write_bytes(data)
        sums[str(number)] = hashlib.sha256(data).hexdigest()
    kernel = debian_kernels()[-1]
    shutil.copy(kernel, root / "boot/vmlinuz")
    _make_initramfs(folder / "initramfs", root / "boot/initrd", kernel, sums, chance.randbytes(LOADED_BYTES))
    image = folder / "disk.img"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    _run("sfdisk", "--quiet", image, given=f"{FIRST_SECTOR},{EFI_BYTES // SECTOR_BYTES},ef\n,,83,*\n")
    _put(image, _efi_partition(folder), FIRST_SECTOR * SECTOR_BYTES)
    _put(image, _root_partition(folder, root), FIRST_SECTOR * SECTOR_BYTES + EFI_BYTES)
    _put_grub(folder, image)
    return GuestImage(image, sums)


def files_of(image: Path, folder: Path, name: str) -> dict[str, str]:
    """Sums of the files in a folder of partition 2 of an image, whose file system must be clean."""
    partition = folder / "root.found"
    with image.open("rb") as file:
        file.seek(FIRST_SECTOR * SECTOR_BYTES + EFI_BYTES)
        partition.write_bytes(file.read(ROOT_BYTES))
    _run("e2fsck", "-f", "-n", partition)
    found = folder / "found"
    shutil.rmtree(found, ignore_errors=True)
    found.mkdir()
    _run("debugfs", "-R", f"rdump /{name} {found}", partition)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (found / name).iterdir()}


def _run(*words: str | Path, given: str = "", cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={"PATH": PATH, "MTOOLS_SKIP_CHECK": "1"},
    )
    assert done.returncode == 0, f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def _put(image: Path, part: Path, offset: int, length: int | None = None) -> None:
    with image.open("r+b") as file:
        file.seek(offset)
        file.write(part.read_bytes()[:length])


def _make_initramfs(tree: Path, to: Path, kernel: Path, sums: dict[str, str], loaded: bytes) -> None:
    for name in ("bin", "dev", "proc", "sys", "mnt", "lib", "run", "etc", "var", "modules"):
        (tree / name).mkdir(parents=True)
    busybox = shutil.which("busybox", path=PATH)
    assert busybox is not None
    shutil.copy(busybox, tree / "bin/busybox")
    (tree / "bin/sh").symlink_to("busybox")
    shutil.copy(INIT, tree / "init")
    (tree / "init").chmod(0o755)
    _copy_with_libraries(tree, ISCSISTART)
    (tree / "modules/order").write_text("\n".join(_copy_modules(tree, kernel)) + "\n")
    (tree / "loaded").write_bytes(loaded)
    (tree / "loaded.sum").write_text(f"{hashlib.sha256(loaded).hexdigest()}  /loaded\n")
    (tree / "sums").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*"))) + "\n"
    _run("cpio", "--quiet", "-o", "-H", "newc", "-F", to, given=names, cwd=tree)


def _copy_with_libraries(tree: Path, program: Path) -> None:
    libraries = re.findall(r"(/\S+) \(0x", _run("ldd", program))
    for path in [program, *map(Path, libraries)]:
        to = tree / str(path).lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)


def _copy_modules(tree: Path, kernel: Path) -> list[str]:
    """In an order in which each finds what it needs."""
    version = kernel.name.removeprefix("vmlinuz-")
    order: list[str] = []
    for module in MODULES:
        for path in re.findall(
            r"^insmod (\S+)", _run("modprobe", "--show-depends", "-S", version, module), re.MULTILINE
        ):
            if Path(path).name not in order:
                shutil.copy(path, tree / "modules")
                order.append(Path(path).name)
    return order


def _efi_partition(folder: Path) -> Path:
    grub, partition, script = folder / "BOOTX64.EFI", folder / "efi.img", folder / "loader.cfg"
    script.write_text(LOADER)
    _run("grub-mkimage", "-O", "x86_64-efi", "-o", grub, "-p", "/boot/grub", "-c", script, *GRUB_MODULES)
    with partition.open("wb") as file:
        file.truncate(EFI_BYTES)
    _run("mkfs.vfat", partition)
    _run("mmd", "-i", partition, "::EFI", "::EFI/BOOT")
    _run("mcopy", "-i", partition, grub, "::EFI/BOOT/BOOTX64.EFI")
    return partition


def _root_partition(folder: Path, root: Path) -> Path:
    partition = folder / "root.img"
    _run("mke2fs", "-q", "-t", "ext4", "-L", LABEL, "-d", root, partition, f"{ROOT_BYTES // 1024}k")
    return partition


def _put_grub(folder: Path, image: Path) -> None:
    """Where its first sector looks for the rest unless it is told otherwise: in the sectors behind it."""
    rest = folder / "core.img"
    script = folder / "loader.cfg"
    _run("grub-mkimage", "-O", "i386-pc", "-o", rest, "-p", "/boot/grub", "-c", script, "biosdisk", *GRUB_MODULES)
    assert rest.stat().st_size <= (FIRST_SECTOR - 1) * SECTOR_BYTES
    _put(image, BOOT_CODE, 0, BOOT_CODE_BYTES)
    _put(image, rest, SECTOR_BYTES)
