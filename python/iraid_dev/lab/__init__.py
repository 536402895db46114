"""scripts/lab: a real kernel with LIO and TCMU, and a command run inside it.

cli         the command              run         what a run is made of, and its folder
supervise   the guest's process      uml, qemu, host   the kernels
guest/      what runs inside, before the command      clean_debian   scripts/clean-debian, a root for it
"""
