#!/usr/bin/python3
"""Beside the machines a, b and i: what iraid doctor says of two gateways with LIO, as they are set up, and with faults that
each of them alone does not have.

    scripts/lab --machines a,b,i -- tests/lab/pair_doctor.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from pair import IQN, IRAID, MULTIPATH, VOLUME, Gateway, Pair

NONCE = "a random text that only this program has"
SECRET = "never-in-any-output"
PEER, NONCE_FILE = "/root/peer.json", "/root/nonce"


def compared(here: Gateway, there: Gateway) -> dict[str, tuple[str, str]]:
    """Grade and text of each check that is not ok."""
    facts = there.machine.run(f"{IRAID} doctor --facts --nonce -", given=NONCE).good().output
    assert SECRET not in facts and NONCE not in facts, facts
    here.machine.run(f"cat >{PEER}", given=facts).good()
    here.machine.run(f"cat >{NONCE_FILE}", given=NONCE).good()
    done = here.iraid("doctor", "--peer-facts", PEER, "--nonce", NONCE_FILE, "--json")
    found = json.loads(done.output)["findings"]
    assert len(found) >= 8, done
    return {one["check"]: (one["grade"], one["text"]) for one in found if one["grade"] != "ok"}


def same_secret(gateway: Gateway, secret: str) -> None:
    acls = f"/sys/kernel/config/target/iscsi/{IQN}/tpgt_{gateway.number}/acls/*/auth"
    gateway.machine.run(f"for acl in {acls}; do echo user >$acl/userid; echo {secret} >$acl/password; done").good()


def as_it_is_set_up(pair: Pair) -> None:
    for here, there in ((pair.a, pair.b), (pair.b, pair.a)):
        found = compared(here, there)
        assert set(found) == {"clocks"} and found["clocks"][0] == "unknown", found


def who_has_it(pair: Pair) -> None:
    said = pair.b.status()["holder"]
    keys = {one["key"] for one in said["members"]}
    assert len(said["members"]) == 4 and len(keys) == 1 and keys.isdisjoint({None, said["own_key"]}), said
    pair.move(pair.b)
    assert {one["key"] for one in pair.a.status()["holder"]["members"]} == {said["own_key"]}
    pair.move(pair.a)


def with_other_secrets(pair: Pair) -> None:
    for gateway in (pair.a, pair.b):
        same_secret(gateway, SECRET)
    assert "exports" not in compared(pair.a, pair.b)
    same_secret(pair.b, f"{SECRET}-other")
    grade, text = compared(pair.a, pair.b)["exports"]
    assert grade == "bad" and "CHAP of initiators differs" in text, text
    same_secret(pair.b, SECRET)


def under_one_initiator_name(pair: Pair) -> None:
    """Of a file that was copied whole."""
    path = f"/etc/iraid/volumes/{VOLUME}.conf"
    whole = pair.a.machine.run(f"cat {path}").good().output
    own = pair.b.machine.run(f"cat {path}").good().output
    pair.b.machine.run(f"cat >{path}", given=whole).good()
    found = compared(pair.a, pair.b)
    assert found["initiators"][0] == "bad" and "shuts nobody out" in found["initiators"][1], found
    pair.b.machine.run(f"cat >{path}", given=own).good()


STEPS = (as_it_is_set_up, who_has_it, with_other_secrets, under_one_initiator_name)


def main() -> None:
    with Pair(Path(os.environ["IRAID_LAB_STATE"]), MULTIPATH) as pair:
        for step in STEPS:
            step(pair)
            print(step.__name__, flush=True)


if __name__ == "__main__":
    main()
