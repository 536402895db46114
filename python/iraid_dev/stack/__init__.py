"""The parts of a gateway and what stands around it, for tests and for all programs that need them.

    farm              targets on loopback, by tgtd: killed, stopped, wiped at will    lio_targets     the same in the kernel
    runner            tcmu-runner with the handler that was built                     initiator       open-iscsi
    gateway           runner, `iraid`, LIO and initiator together                     reference_lun   LIO's own LUN
    faults            targets behind links, and what is done to them under load       load, ack_writer   loads that verify
    typed_stack       the stack as an administrator types it, each command shown
    private_gateway   the control socket and nbdkit without a kernel                  shadow   libnbd's load that verifies
    reader, rows, checksum   members read by what docs/design/format.md says, with nothing of the product's
    tools             waiting, running, free ports

It imports iraid and steps.
"""
