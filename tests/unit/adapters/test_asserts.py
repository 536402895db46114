"""An assertion that a peer's bytes can reach lets any target end the gateway.  So each one in the rooms that speak to
targets is here, with what keeps peers from it; for what a peer says there are errors of that member.
"""

from __future__ import annotations

import re

from iraid_dev.places import ROOT

ROOMS = ("iscsi", "device", "backend")
WHY_NO_PEER_REACHES_IT = {
    "iscsi/connection.c": {
        # The caller has fewer tasks than slots (WINDOW_COMMANDS and one step); an answer only frees slots.
        "connection->free_count > 0 && task->connection == NULL": 1,
        "task->read || task->connection == NULL": 1,  # the engine diverts reads
        # Sent once, in a state that waits for the answer and leaves with the connection.
        "connection->management_tag == ISCSI_NO_TAG": 1,
        "connection->logout_tag == ISCSI_NO_TAG": 1,
        "login->outcome == LOGIN_COMPLETE": 1,  # both callers look before, and say what is wrong
    },
    "iscsi/login.c": {
        "length >= 0 && (size_t)length < room": 1,  # what we say: names and secrets have their bounds
    },
    "iscsi/inspect.c": {
        "inspection->step < INSPECT_DONE": 1,  # whoever asks stops there: device.c's loop, SESSION_MODE
    },
    "iscsi/scsi.c": {
        "length <= sizeof(request->data)": 1,  # lengths are constants of this file
        # Blocks are counted up to a capacity that READ CAPACITY(10) told, of blocks of 512 or 4096 bytes
        # (inspect.c), and ranges are compared with it: range_fault() and cut_possible().
        "block <= UINT32_MAX && blocks <= UINT16_MAX": 1,
    },
    "device/text.c": {
        "length + 3 <= sizeof(padded)": 1,  # of our own question
    },
    "backend/backend.c": {
        # What the engine may call when; sessions are CLOSED by member_drop() alone.
        "member->state == SESSION_CLOSED && !member->closed_pending": 1,
        "member->state == SESSION_CLOSED && member->done.head == NULL": 1,
    },
    "backend/io.c": {
        "transfer != NULL": 1,  # there is one for each command, and a command is free
        "io->op == BACKEND_READ": 1,  # the engine diverts reads
        "member->wire_oldest == NULL": 1,  # the connection gave all back when it was destroyed
    },
}  # fmt: skip


def assertions(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for start in re.finditer(r"(?<!static_)\bassert\(", text):
        depth, at = 1, start.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        what = " ".join(text[start.end() : at - 1].split())
        found[what] = found.get(what, 0) + 1
    return found


def test_each_assertion_beside_targets_has_a_reason_why_none_reaches_it():
    seen = {}
    for room in ROOMS:
        for path in sorted((ROOT / "handler/adapters" / room).glob("*.[ch]")):
            found = assertions(path.read_text())
            if found:
                seen[f"{room}/{path.name}"] = found
    assert seen == WHY_NO_PEER_REACHES_IT


def test_nothing_else_there_ends_the_process():
    for room in ROOMS:
        for path in (ROOT / "handler/adapters" / room).glob("*.[ch]"):
            assert not re.search(
                r"\b(?:abort|exit|_exit|raise|__builtin_trap|__builtin_unreachable)\(", path.read_text()
            ), path
