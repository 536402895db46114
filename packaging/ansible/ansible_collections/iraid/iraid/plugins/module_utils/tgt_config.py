"""A target of tgt as its configuration file has it, and what `tgtadm --op show` tells of the running one."""

import re

from . import names
from .lio_plan import PARAMETERS

FIRST_LUN = 1  # tgt keeps LUN 0 for its controller


def file_name(iqn):
    return f"iraid-{iqn}.conf"  # as it is: no other target has it


def file_before(folder, iqn):
    """The file of this target alone under the name that the role gave files before; None if there is none."""
    path = folder / f"iraid-{re.sub('[^a-z0-9-]', '-', iqn)}.conf"
    if not path.is_file() or re.findall(r"^\s*<target\s+([^\s>]+)\s*>", path.read_text(), re.MULTILINE) != [iqn]:
        return None
    return path


def text(iqn, luns, initiators, addresses, accounts, parameters):
    """The block of one target; luns: (path, write_back) of LUN 1, 2, ...; accounts: (key, user, secret).

    With neither initiators nor addresses everybody may log in.
    """
    lines = [
        "# Written by the Ansible role iraid. Its next run overwrites changes to this file.",
        f"<target {iqn}>",
        "    driver iscsi",
    ]
    for number, (path, write_back) in enumerate(luns, FIRST_LUN):
        lines += [
            f"    <backing-store {path}>",
            f"        lun {number}",
            f"        write-cache {'on' if write_back else 'off'}",
            "    </backing-store>",
        ]
    lines += [f"    initiator-name {names.iqn(one)}" for one in initiators]
    # Both must fit; without a line of these, every address does.
    lines += [f"    initiator-address {one}" for one in addresses]
    lines += [f"    {key} {user} {secret}" for key, user, secret in accounts]
    # Of the number of commands under way tgt-admin knows nothing; tgt's default, 128, is enough.
    merged = {**PARAMETERS, **parameters}
    lines += [f"    {name} {value}" for name, value in sorted(merged.items())]
    return "\n".join([*lines, "</target>", ""])


def targets_in_use(shown):
    """{iqn: whether initiators are logged in} of `tgtadm --lld iscsi --mode target --op show`."""
    found, name = {}, None
    for line in shown.splitlines():
        begun = re.match(r"Target \d+: (\S+)", line)
        if begun:
            name = begun[1]
            found[name] = False
        elif name and re.match(r"\s+I_T nexus: ", line):
            found[name] = True
    return found
