"""The lab's soak with initiators and targets that mean harm: what they do comes beside the faults of members.

One runner lives through all of it, so that its memory can be watched: the gateway is not killed.
"""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
from pathlib import Path

from iraid_dev.places import module_words
from iraid_dev.stack.command_window import Window, renew_session, window_of
from iraid_dev.stack.farm import LUN
from iraid_dev.stack.faults import FaultFarm
from iraid_dev.stack.flip_proxy import TO_GATEWAY, TO_TARGET, FlipProxy
from iraid_dev.stack.gateway import Volume, iraid
from iraid_dev.stack.raw_initiator import RawInitiator
from iraid_dev.stack.tools import attempt, wait_for

from .aborts import Aborts, Broken, Counts
from .driver import Wrong, at_rest
from .lab import MEMBER_BYTES, PROBES, LabStage
from .report import Run

HARMFUL = "iqn.2026-01.org.iraid.test:harmful"
LOGINS = 200
NONSENSE = 300
IN_FLIGHT_MAX = 9  # of the load: fio's depth, and the prober
FIRST_BLOCK = (16 << 20) // 4096  # behind fio's part
# Opcodes that carry no data to where others write; what follows the opcode is drawn.
OPCODES = (0x00, 0x03, 0x12, 0x1A, 0x1B, 0x25, 0x2F, 0x35, 0x37, 0x4D, 0x5A, 0x5E, 0x84, 0x88, 0x8F, 0x91, 0x9E, 0xA0,
           0xA3, 0xA8, 0xB7, 0xC0, 0xD5, 0xFF)  # fmt: skip


class HostileStage(LabStage):
    def __init__(self, run: Run) -> None:
        self.run, self.answers, self.attempts = run, Counts(), {"logins": 0, "nonsense": 0, "lies": 0, "flips": 0}
        super().__init__(run)
        kills = ("gateway killed", "gateway killed without a member")
        self.faults = {name: fault for name, fault in self.faults.items() if name not in kills}
        self.faults |= {
            "commands aborted, LUN reset": (6, self.aborts), "LUN reset by sg_reset": (3, self.resets),
            "storm of logins": (3, self.logins), "commands of nonsense": (3, self.nonsense),
            "member's target lies": (4, self.lies), "bits flipped on the way": (4, self.flips),
        }  # fmt: skip

    def make_farm(self, count: int) -> FaultFarm:
        return FlippedFarm(Path("/dev/shm/soak"), count, MEMBER_BYTES, digests=True)

    def prepare(self) -> None:
        """Its first sessions end, one after the other, so that all have digests."""
        iraid("set", self.volume.name, "--header-digest", "required", "--data-digest", "required")
        for proxy in self.farm.proxies[: len(self.roles)]:
            before = proxy.logins
            proxy.end_all()
            wait_for(lambda: proxy.logins > before and at_rest(self.status()), "a login with digests", 60)  # noqa: B023

    def _set_up(self) -> None:
        super()._set_up()
        self._admit(self.volume)
        host, port = self.volume.portal.rsplit(":", 1)
        self.place = (host, int(port))

    @staticmethod
    def _admit(volume: Volume) -> None:
        iraid("export", volume.name, "--iqn", volume.iqn, "--portal", volume.portal, "--acl", HARMFUL, "--no-chap")

    def settle(self) -> None:
        super().settle()
        self.run.memory.append(resident_bytes(self.gateway.runner.process.pid))

    def tend(self) -> str:
        """The load ran when this is asked, so a session made anew hides no hang.  One fault takes 5 resets with all in
        flight at most, which half a window bears."""
        window = self._window_left()
        if window.left + IN_FLIGHT_MAX >= window.granted:
            return ""
        text = f"{window.left} of {window.granted} places left in the window of the load's session"
        if window.left >= window.granted // 2:
            return text
        renew_session(self.volume.disk)
        self.wait_probes()
        renewed = self._window_left()
        if renewed.session == window.session or renewed.left + IN_FLIGHT_MAX < renewed.granted:
            raise Wrong(f"{text}; it was made anew and has {renewed}")
        return f"{text}: it was made anew"

    def _window_left(self) -> Window:
        """What is in flight counts as lost, so the best of some moments."""
        begin = self.watch.prober.rounds
        windows = [window_of(self.volume.iqn)]

        def enough() -> bool:
            windows.append(window_of(self.volume.iqn))
            return self.watch.prober.rounds >= begin + PROBES

        self.wait(enough, "the load to run", 200)
        windows = [window for window in windows if window.session == windows[-1].session]
        return max(windows, key=lambda window: window.left)

    def close(self, good: bool = False) -> None:
        answers = getattr(self, "answers", None)
        if answers is not None and answers.commands:
            self.run.notes = [
                f"aborts and resets: {answers.line() if good else answers}",
                ", ".join(f"{number} {what}" for what, number in self.attempts.items()),
            ]
        super().close(good)

    def _session(self) -> RawInitiator:
        return RawInitiator(self.volume.portal, self.volume.iqn, HARMFUL)

    # What they do

    def aborts(self, chance: random.Random) -> None:
        try:
            load = Aborts(self._session, FIRST_BLOCK, chance)
            load.counts = self.answers
            load.run(chance.uniform(5, 20))
        except (Broken, OSError) as error:
            raise Wrong(f"aborts: {error}") from None
        self.check()

    def resets(self, chance: random.Random) -> None:
        for _ in range(chance.randint(1, 5)):
            attempt("sg_reset", "-d", self.volume.disk.path, seconds=60)
            self.wait_probes()

    def logins(self, chance: random.Random) -> None:
        """Whole ones, half ones, and bytes that are none; at most a few beside each other."""
        for _ in range(LOGINS):
            self.attempts["logins"] += 1
            kind = chance.randrange(3)
            with contextlib.suppress(OSError):
                if kind == 0:
                    with self._session():
                        pass
                    continue
                with socket.create_connection(self.place, timeout=5) as connection:
                    connection.sendall(
                        bytes([0x43, 0x87]) + bytes(46) if kind == 1 else chance.randbytes(chance.randrange(1, 300))
                    )
        self.wait_probes()

    def nonsense(self, chance: random.Random) -> None:
        left = NONSENSE
        while left > 0:
            try:
                with self._session() as session:
                    while left > 0:
                        left -= 1
                        self._say_nonsense(session, chance)
            except TimeoutError:
                raise Wrong("a command of nonsense was never answered") from None
            except OSError:  # LIO ends sessions for some of it
                continue
        self.wait_probes()

    def _say_nonsense(self, session: RawInitiator, chance: random.Random) -> None:
        self.attempts["nonsense"] += 1
        cdb = bytes([chance.choice(OPCODES)]) + chance.randbytes(15)
        session.ask(cdb, read_bytes=chance.choice((0, 4, 36, 252, 4096, 65536)))

    def lies(self, chance: random.Random) -> None:
        """Somebody else is at a member's address for a while."""
        number = chance.choice(self.roles)
        address, _, port = self.farm.portal(number).rpartition(":")
        self.farm.kill(number)
        words = [*module_words("iraid_dev.stack.lying_target"), address, port, str(chance.randrange(1 << 32))]
        liar = subprocess.Popen(
            [*self.farm.targets[number].options.prefix, *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            if liar.stdout.readline().strip() != "ready":
                raise Wrong("the target that lies did not start")
            self.last(chance, 5, 20)
        finally:
            taken, _ = liar.communicate(timeout=30)
        self.attempts["lies"] += int(taken or 0)
        self.farm.restart(number)

    def flips(self, chance: random.Random) -> None:
        """One bit at a time, in headers and data, both ways; a session may end for it."""
        proxy = self.farm.proxies[chance.choice(self.roles)]
        before = proxy.injected
        for _ in range(chance.randint(3, 12)):
            proxy.arm(
                chance.choice((TO_GATEWAY, TO_TARGET)), chance.choice(("header", "data")), chance.randrange(1 << 32)
            )
            self.wait_probes()
        proxy.disarm()
        self.attempts["flips"] += proxy.injected - before


class FlippedFarm(FaultFarm):
    """Targets behind proxies, which the volume's members name."""

    def __enter__(self) -> FlippedFarm:
        super().__enter__()
        places = [self.portal(number).rpartition(":") for number in range(len(self))]
        self.proxies = [FlipProxy((address, int(port))).__enter__() for address, _, port in places]
        return self

    def member(self, number: int, which: int = 0) -> str:
        return f"{self.proxies[number].portal}/{self.iqn(number)}/{LUN}"

    def close(self) -> None:
        for proxy in getattr(self, "proxies", []):
            proxy.__exit__()
        super().close()


def resident_bytes(process: int) -> int:
    """VmRSS."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise Wrong(f"process {process}, the runner, has ended")
