"""What the fault tests and the soak have in common: targets behind links of their own, faults that can be
put right again, a load that verifies, and a prober that knows how long the initiator had to wait.

    with FaultFarm(folder, 4) as farm:          # each tgtd in a network namespace, 10.77.N.2
        volume = gateway.create(5, farm.members())
        with Watch(volume.login()) as watch:    # fio with verification, and the prober
            mark = watch.mark()
            FAULTS["cut"].begin(farm, 2)
            ...
            FAULTS["cut"].end(farm, 2)
            print(watch.since(mark))            # longest stall, errors, bytes verified
"""

from __future__ import annotations

import mmap
import os
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .farm import TargetFarm, TargetOptions
from .initiator import Disk
from .load import fio_words
from .tools import StackError, attempt, run

PROBE_SECONDS = 0.05
PROBE_BYTES = 4096
SLOW = "500ms"
FIO_SECONDS_MAX = 300
END_SECONDS = 20
RENEWED_SECONDS = 240  # the initiator's replacement_timeout is 120 s


def _network(number: int) -> str:
    return f"10.77.{number}"


class FaultFarm(TargetFarm):
    """TargetFarm whose targets sit at the other ends of links that can be cut and slowed."""

    def __init__(self, folder: Path, count: int, size_bytes: int = 128 << 20, digests: bool = False):
        self._links = 0
        try:
            options = [self._link(size_bytes, digests) for _ in range(count)]
            super().__init__(folder, options=options)
        except BaseException:
            self._unlink()
            raise

    def _link(self, size_bytes: int, digests: bool = False) -> TargetOptions:
        number, self._links = self._links, self._links + 1
        space, network = f"iraid{number}", _network(number)
        for leftover in (("netns", "del", space), ("link", "del", f"to{number}")):
            with suppress(StackError):
                run("ip", *leftover)
        run("ip", "netns", "add", space)
        run("ip", "link", "add", f"to{number}", "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "addr", "add", f"{network}.1/24", "dev", f"to{number}")
        run("ip", "link", "set", f"to{number}", "up")
        run("ip", "-n", space, "addr", "add", f"{network}.2/24", "dev", "eth0")
        run("ip", "-n", space, "link", "set", "eth0", "up")
        run("ip", "-n", space, "link", "set", "lo", "up")
        prefix = ("ip", "netns", "exec", space)
        return TargetOptions(size_bytes=size_bytes, address=f"{network}.2", prefix=prefix, digests=digests)

    def add_linked(self) -> int:
        """One more, empty, on a link of its own."""
        return self.add(self._link(self.targets[0].options.size_bytes))

    def _unlink(self) -> None:
        for number in range(self._links):
            with suppress(StackError):
                run("ip", "netns", "del", f"iraid{number}")

    def close(self) -> None:
        super().close()
        self._unlink()

    def link(self, number: int, state: str) -> None:
        """The far end goes down: what is sent is dropped, and nothing comes."""
        run("ip", "-n", f"iraid{number}", "link", "set", "eth0", state)

    def slow(self, number: int, delay: str | None) -> None:
        if delay is None:
            run("tc", "qdisc", "del", "dev", f"to{number}", "root")
        else:
            run("tc", "qdisc", "add", "dev", f"to{number}", "root", "netem", "delay", delay, "limit", "100000")

    def wipe(self, number: int) -> None:
        """Of a target that was killed: it comes back with an empty disk."""
        size = self.targets[number].options.size_bytes
        self.resize_file(number, 0)
        self.resize_file(number, size)


@dataclass(frozen=True)
class Fault:
    text: str  # what became of the member
    begin: Callable[[FaultFarm, int], None]
    end: Callable[[FaultFarm, int], None]


FAULTS = {
    "kill": Fault("killed", lambda farm, n: farm.kill(n), lambda farm, n: farm.restart(n)),
    "hang": Fault("stopped", lambda farm, n: farm.stop(n), lambda farm, n: farm.cont(n)),
    "cut": Fault("cut off", lambda farm, n: farm.link(n, "down"), lambda farm, n: farm.link(n, "up")),
    "slow": Fault(f"slowed by {SLOW}", lambda farm, n: farm.slow(n, SLOW), lambda farm, n: farm.slow(n, None)),
}


class Pausable:
    """A thread that works round by round, and can be asked to rest between two of them."""

    def __init__(self) -> None:
        self._stop, self._go, self._resting = threading.Event(), threading.Event(), threading.Event()
        self._go.set()

    def _rest_if_asked(self) -> None:
        if not self._go.is_set():
            self._resting.set()
            self._go.wait()
            self._resting.clear()

    def pause(self) -> None:
        """Returns when the round that is under way has ended."""
        self._go.clear()
        if not self._resting.wait(FIO_SECONDS_MAX):
            raise StackError(f"a round of the load did not end within {FIO_SECONDS_MAX} s")

    def resume(self) -> None:
        self._go.set()


class Prober(Pausable):
    """Writes 4 KiB and reads them back, past every cache, again and again; notes how long that took."""

    def __init__(self, disk: Disk, offset: int):
        self.offset = offset
        self.errors: list[tuple[float, str]] = []
        self.rounds = 0
        self._slow: list[tuple[float, float]] = []  # (end, seconds) of what took longer than a round should
        self._begun: float | None = None
        super().__init__()
        self._file = os.open(disk.path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="prober")
        self._thread.start()

    def _run(self) -> None:
        memory = mmap.mmap(-1, 2 * PROBE_BYTES)
        out, back = memoryview(memory)[:PROBE_BYTES], memoryview(memory)[PROBE_BYTES:]
        while not self._stop.wait(PROBE_SECONDS):
            self._rest_if_asked()
            self.rounds += 1
            out[:] = self.rounds.to_bytes(8, "little") * (PROBE_BYTES // 8)
            if self._timed("write", lambda: os.pwritev(self._file, [out], self.offset)):
                if self._timed("read", lambda: os.preadv(self._file, [back], self.offset)) and out != back:
                    self._note(
                        f"wrong bytes: round {int.from_bytes(back[:8], 'little')} was read in round {self.rounds}"
                    )
        out.release()
        back.release()

    def _note(self, text: str) -> None:
        self.errors.append((time.monotonic(), f"prober, byte {self.offset}: {text}"))

    def _timed(self, what: str, call: Callable[[], int]) -> bool:
        self._begun = begin = time.monotonic()
        try:
            good = call() == PROBE_BYTES
        except OSError as error:
            good = False
            self._note(f"{what}: {error.strerror}")
        finally:
            self._begun = None
        end = time.monotonic()
        if end - begin > PROBE_SECONDS:
            self._slow.append((end, end - begin))
        return good

    def longest_since(self, moment: float) -> float:
        """What is still under way counts too."""
        begun, now = self._begun, time.monotonic()
        waiting = now - begun if begun is not None else 0.0
        return max([waiting, *(seconds for end, seconds in self._slow if end >= moment)])

    def order_end(self) -> None:
        self._stop.set()
        self.resume()

    def ended(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def close(self) -> None:
        self.order_end()
        self._thread.join()
        os.close(self._file)


class FioLoop(Pausable):
    """fio after fio: each writes at random, verifies as it goes (crc32c), and all of it at its end."""

    def __init__(self, disk: Disk, size_bytes: int, rate: str, log: Path | None = None):
        self.disk, self.size_bytes, self.rate, self.log = disk, size_bytes, rate, log
        self.verified = self.written = self.runs = 0
        self.errors: list[tuple[float, str]] = []
        super().__init__()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, name="fio")
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set() and not self.errors:
            self._rest_if_asked()
            if self._stop.is_set():
                return
            self.runs += 1
            self._one()
        self._resting.set()  # for whoever waits in pause()

    def _one(self) -> None:
        words = fio_words(
            self.disk,
            rw="randwrite",
            bsrange="4k-64k",
            iodepth=8,
            offset=0,
            size=self.size_bytes,
            rate=self.rate,
            verify_backlog=64,
            randseed=self.runs,
        )
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            output, said = self._process.communicate(timeout=FIO_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            output, said = self._process.communicate()
            self.errors.append((time.monotonic(), f"fio did not end within {FIO_SECONDS_MAX} s\n{said}"))
            return
        if self.log is not None:
            self.log.write_text(output + said)
        if self._process.returncode != 0:
            text = f"fio: status {self._process.returncode}\n{said}{output.partition('{')[0]}"
            self.errors.append((time.monotonic(), text))
            return
        self._count(output)

    def _count(self, output: str) -> None:
        import json

        job = json.loads(output[output.index("{") :])["jobs"][0]
        self.verified += job["read"]["io_bytes"]
        self.written += job["write"]["io_bytes"]
        if job["error"]:
            self.errors.append((time.monotonic(), f"fio: error {job['error']}"))

    def close(self) -> None:
        """When the run that is under way has verified all it wrote."""
        self._stop.set()
        self.resume()
        self._thread.join()

    def order_end(self) -> None:
        self._stop.set()
        self.resume()
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    def ended(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def kill(self) -> None:
        self.order_end()
        self._thread.join()


@dataclass(frozen=True)
class Seen:
    """By the initiator."""

    stall_seconds: float
    errors: list[str]
    verified_bytes: int

    def line(self, fault: str) -> str:
        return (
            f"fault table: {fault:32} longest stall {self.stall_seconds:5.2f} s, {len(self.errors)} errors, "
            f"{self.verified_bytes / 1e6:6.1f} MB verified"
        )


@dataclass(frozen=True)
class Mark:
    moment: float
    verified: int


class Watch:
    """Load and prober together, on the two ends of a disk."""

    def __init__(self, disk: Disk, size_bytes: int = 6 << 20, rate: str = "2m"):
        self.disk = disk
        self.prober = Prober(disk, disk.size_bytes // PROBE_BYTES * PROBE_BYTES - PROBE_BYTES)
        try:
            self.fio = FioLoop(disk, size_bytes, rate)
        except BaseException:
            self.prober.close()
            raise

    def pause(self) -> None:
        """Nothing is in flight on return."""
        self.fio.pause()
        self.prober.pause()

    def resume(self) -> None:
        self.prober.resume()
        self.fio.resume()

    def mark(self) -> Mark:
        return Mark(time.monotonic(), self.fio.verified)

    def since(self, mark: Mark) -> Seen:
        errors = [text for moment, text in (*self.prober.errors, *self.fio.errors) if moment >= mark.moment]
        return Seen(self.prober.longest_since(mark.moment), errors, self.fio.verified - mark.verified)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        if kind is None:
            self.fio.close()
        else:
            self._give_up()
        self.prober.close()

    def _give_up(self) -> None:
        """Commands that hang in the initiator outlive their processes: a new session sends them again, and if
        it can't be made, Linux fails them."""
        self.fio.order_end()
        self.prober.order_end()
        if self._ended(END_SECONDS):
            return
        attempt("sg_reset", "--no-esc", "--target", self.disk.path)
        if not self._ended(RENEWED_SECONDS):
            raise StackError(f"the load on {self.disk.path} does not end")

    def _ended(self, seconds: float) -> bool:
        return self.fio.ended(seconds) and self.prober.ended(seconds)
