"""The runner does not run for a while (it swaps), and LIO gives an UNMAP or WRITE SAME in its ring up after 30 s.  What the
initiator then writes to the same blocks, and is told to be written, stays, though the runner takes both from the ring."""

from __future__ import annotations

import mmap
import os
import signal
import threading
import time

import pytest

from iraid_dev.stack.tools import attempt, wait_for

MIB = 1 << 20
WRITTEN = b"\xa5" * (64 << 10)
LOOKED_AT_SECONDS = 8  # long after 32 MiB of zeros
COMMANDS = {  # and where the range ends that it writes from block 0 on
    "unmap": (("sg_unmap", "--force", "--lba=0", "--num=65536"), 32 * MIB),
    "write same": (("sg_write_same", "--16", "--lba=0", "--num=32768", "--xferlen=512"), 16 * MIB),
}


@pytest.mark.timeout(280)
@pytest.mark.parametrize("what", [pytest.param("write same", marks=pytest.mark.long), "unmap"])
def test_what_is_written_after_a_command_was_given_up_stays(gateway, farm, memory_folder, what):
    volume = gateway.create(5, farm(4).members())
    volume.wait_resynced()
    disk = volume.login()
    command, end = COMMANDS[what]
    block = memory_folder / "block"
    block.write_bytes(b"o" * 512)
    if what == "write same":
        command = (*command, f"--in={block}")
    told = []
    fd = os.open(disk.path, os.O_RDWR | os.O_DIRECT)
    runner = gateway.runner.process.pid
    with mmap.mmap(-1, len(WRITTEN)) as buffer, mmap.mmap(-1, len(WRITTEN)) as back:
        buffer.write(WRITTEN)
        os.kill(runner, signal.SIGSTOP)
        try:
            status, text = attempt(*command, disk.path)
            writer = threading.Thread(
                target=lambda: told.append(os.pwrite(fd, buffer, end - len(WRITTEN))), daemon=True
            )
            writer.start()
            time.sleep(0.5)
        finally:
            os.kill(runner, signal.SIGCONT)
        assert status != 0 and "not ready" in text.lower(), text
        wait_for(lambda: told, "the write to end", seconds=60)
        writer.join()
        assert told == [len(WRITTEN)]
        deadline = time.monotonic() + LOOKED_AT_SECONDS
        while time.monotonic() < deadline:
            os.preadv(fd, [back], end - len(WRITTEN))
            assert back[:] == WRITTEN
            time.sleep(0.2)
    os.close(fd)
    block.unlink()
