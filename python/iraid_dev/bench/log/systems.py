"""The systems of the log profile: iraid with a mode of its write log, md with one of its own means against the write hole.

The targets of each are behind the links of one network: target N of all systems in namespace N, md's journal in the last.
"""

from __future__ import annotations

from abc import abstractmethod
from iraid.control.errors import IraidError
from iraid_dev.bench.core.network import NetworkTargets
from iraid_dev.bench.core.systems import Iraid, Md, System
from iraid_dev.stack.tools import wait_for
from iraid_dev.stack.typed_stack import Stack

from .plan import OUT, SHAPE

SUFFIX_OUT = "-out"
START_SECONDS_MAX = 60


class Refused(Exception):
    """This handler doesn't have it; the message says what it said."""


class JournalTarget(NetworkTargets):
    first = SHAPE.members


class Logged(System):
    target_kind = NetworkTargets

    @property
    def out(self) -> bool:
        """A member is to be out."""
        return self.name.endswith(SUFFIX_OUT)

    @abstractmethod
    def get_ready(self) -> None:
        """Once it was filled: the member goes that is to be out."""

    @abstractmethod
    def reconnect(self) -> None:
        """After the links have changed."""

    @abstractmethod
    def describe(self) -> str:
        """What it does against the write hole, as it says itself."""


class IraidLogged(Logged, Iraid):
    _unserved: int  # entries of _undo of a volume that nobody uses

    @property
    def mode(self) -> str:
        return self.name.removesuffix(SUFFIX_OUT).removeprefix("iraid-")

    def _created(self) -> None:
        try:
            self.stack.client.change_settings(self.volume, log=self.mode)
        except IraidError as error:
            if error.kind != "invalid":
                raise
            raise Refused(f"log = {self.mode}: {error}") from None
        self._unserved = len(self._undo)

    def get_ready(self) -> None:
        if self.out:
            members = self.stack.client.status(self.volume).members
            self.stack.client.fail(self.volume, next(each.member for each in members if each.role == OUT))
        self._wait_settled()

    def reconnect(self) -> None:
        """New sessions to the members: one has its windows for the round trip that it found at its login."""
        while len(self._undo) > self._unserved:
            self._undo.pop()()
        self.stack.client.stop(self.volume)
        size_bytes = self.stack.client.start(self.volume, False, False, START_SECONDS_MAX).size_bytes
        self._serve("iraid", size_bytes)
        self._wait_settled()

    def _wait_settled(self) -> None:
        state = "degraded" if self.out else "active"
        logged = self.mode == "always" or (self.mode == "degraded" and self.out)

        def settled() -> bool:
            status = self.stack.client.status(self.volume)
            return status.state == state and status.log.open == logged

        wait_for(settled, f"volume {self.volume} to be {state}, its log {'open' if logged else 'closed'}")

    def describe(self) -> str:
        log = self.stack.client.status(self.volume).log
        return f"log {log.mode}, {'open' if log.open else 'closed'}" + ", too small" * log.too_small


class MdLogged(Logged, Md):
    journal_kind = JournalTarget

    @property
    def means(self) -> str:
        return self.name.removesuffix(SUFFIX_OUT).removeprefix("md").removeprefix("-")

    def get_ready(self) -> None:
        if self.out:
            self.stack.command("mdadm", self.array, "--fail", self.disks[OUT].path)

    def reconnect(self) -> None:
        """open-iscsi's windows are what its settings say."""

    def describe(self) -> str:
        names = ("array_state", "degraded", "consistency_policy", *(["journal_mode"] if self.journal else []))
        return ", ".join(f"{name} {(self.settings / name).read_text().strip()}" for name in names)


def make(stack: Stack, name: str, member_bytes: int) -> Logged:
    if name.startswith("iraid"):
        return IraidLogged(stack, name, SHAPE, member_bytes=member_bytes)
    return MdLogged(stack, name, SHAPE, member_bytes=member_bytes)
