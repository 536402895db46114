"""What LIO's configfs says of a session's window of commands."""

from __future__ import annotations

import pytest

from iraid_dev.stack.command_window import Window, parse
from iraid_dev.stack.tools import StackError

INFO = """\
InitiatorName: iqn.2026-01.org.iraid:lab
InitiatorAlias: lab
LIO Session ID: 17   ISID: 0x00 02 3d 00 00 01  TSIH: 1  SessionType: Normal
Session State: TARG_SESS_STATE_LOGGED_IN
---------------------[iSCSI Session Values]-----------------------
  CmdSN/WR  :  CmdSN/WC  :  ExpCmdSN  :  MaxCmdSN  :     ITT    :     TTT
 0x00000080   0x00000044   0x00008b53   0x00008b96   0x00000025   0x00000023
----------------------[iSCSI Connections]-------------------------
CID: 0  Connection State: TARG_CONN_STATE_LOGGED_IN
   Address 127.0.0.1 TCP  StatSN: 0x5bff1b7f
"""


def test_a_session_has_what_is_granted_and_what_is_left():
    assert parse(INFO) == Window(session=17, granted=128, left=68)


def test_no_session_is_no_window():
    with pytest.raises(StackError, match="No active iSCSI Session"):
        parse("No active iSCSI Session for Initiator Endpoint: iqn.2026-01.org.iraid:lab\n")
