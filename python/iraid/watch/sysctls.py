"""Settings of this machine's kernel that matter to the sessions with members."""

from pathlib import Path

from . import advice

FOLDER = Path("/proc/sys/net/ipv4")


def gateway(folder: Path = FOLDER) -> advice.Gateway:
    def words(name: str) -> list[int]:
        try:
            return [int(word) for word in (folder / name).read_text().split()]
        except (OSError, ValueError):  # another kernel: then nothing is said of it
            return []

    idle = words("tcp_slow_start_after_idle")
    rmem, wmem = ((words(name) or [0])[-1] for name in ("tcp_rmem", "tcp_wmem"))
    return advice.Gateway(rmem, wmem, slow_start_after_idle=bool(idle[0]) if idle else None)
