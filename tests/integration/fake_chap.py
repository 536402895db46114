"""How a fake target asks for CHAP, declines it, or proves who it is (RFC 7143, 12.1.3).

target.on_login = Chap("joe", "secret of joe", proof=Proof("target", "secret of the target"))
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable

from fake_target import Connection, LoginAnswer

MD5, SHA1, SHA256, SHA3_256 = "5", "6", "7", "8"
DIGESTS = {MD5: "md5", SHA1: "sha1", SHA256: "sha256", SHA3_256: "sha3_256"}
SECURITY_STAGE, REFUSED = 0, 0x0201
TRANSIT = 0x80


def answer_to(algorithm: str, number: str, secret: str, challenge: str) -> str:
    bytes_of = bytes([int(number)]) + secret.encode() + bytes.fromhex(challenge[2:])
    return "0x" + hashlib.new(DIGESTS[algorithm], bytes_of, usedforsecurity=False).hexdigest()


@dataclasses.dataclass
class Proof:
    """The target's user and secret; `change` makes it another answer than the right one."""

    user: str
    secret: str
    change: Callable[[str], str] = lambda right: right


@dataclasses.dataclass
class Chap:
    """Wants one user and secret; offers its own proof if it has one and is asked for it."""

    user: str
    secret: str
    algorithms: tuple[str, ...] = (MD5,)
    proof: Proof | None = None
    method: str = "CHAP"  # what it chooses of those that it is offered
    goes_on: bool = False  # wants none whatever it chooses, as LIO without authentication does
    used: list[str] = dataclasses.field(default_factory=list)  # algorithms
    asked: list[dict[str, str]] = dataclasses.field(default_factory=list)

    def __call__(self, connection: Connection, flags: int, asked: dict[str, str]) -> LoginAnswer:
        self.asked.append(asked)
        if flags >> 2 & 3 != SECURITY_STAGE:
            admitted = connection in self._admitted or self.method == "None" or self.goes_on
            return LoginAnswer(flags, connection.target.keys, 0) if admitted else LoginAnswer(flags, {}, REFUSED)
        if "CHAP_R" in asked:
            return self._judge(connection, flags, asked)
        if "CHAP_A" in asked:
            return self._challenge(connection, flags, asked["CHAP_A"].split(","))
        if "AuthMethod" not in asked:  # on to the next stage
            return LoginAnswer(flags, {}, 0)
        flags = flags if self.goes_on else flags & ~TRANSIT
        return LoginAnswer(flags, {"AuthMethod": self.method, "TargetPortalGroupTag": "1"}, 0)

    def __post_init__(self) -> None:
        self._admitted: list[Connection] = []
        self._challenges: dict[int, tuple[str, str, str]] = {}  # of a connection: algorithm, number, challenge

    def _challenge(self, connection: Connection, flags: int, offered: list[str]) -> LoginAnswer:
        algorithm = next((one for one in offered if one in self.algorithms), "")
        self.used.append(algorithm)
        number, challenge = str(os.urandom(1)[0]), "0x" + os.urandom(24).hex()
        self._challenges[id(connection)] = (algorithm, number, challenge)
        keys = {"CHAP_A": algorithm or "Reject", "CHAP_I": number, "CHAP_C": challenge}
        return LoginAnswer(flags & ~TRANSIT, keys, 0)

    def _judge(self, connection: Connection, flags: int, asked: dict[str, str]) -> LoginAnswer:
        algorithm, number, challenge = self._challenges.pop(id(connection))
        right = answer_to(algorithm, number, self.secret, challenge)
        if (asked["CHAP_N"], asked["CHAP_R"].lower()) != (self.user, right):
            return LoginAnswer(flags, {}, REFUSED)
        self._admitted.append(connection)
        if self.proof is None or "CHAP_C" not in asked:
            return LoginAnswer(flags, {}, 0)
        proof = answer_to(algorithm, asked["CHAP_I"], self.proof.secret, asked["CHAP_C"])
        return LoginAnswer(flags, {"CHAP_N": self.proof.user, "CHAP_R": self.proof.change(proof)}, 0)
