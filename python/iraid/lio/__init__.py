"""How a volume is exported by LIO, the kernel's iSCSI target.

    export_plan   what is there and what is wanted, in; steps, out    steps   one change of LIO each
    access        who may use it
    target        takes the steps, and what it did back if one fails: the only module that imports rtslib
    saved         LIO's saveconfig.json                               saved_shape   what is known of its form
    lio_tree      LIO's objects, as read from /sys/kernel/config      chap          secrets of initiators
    configuration where in a dump of LIO what stands                  pair          one target on two gateways

It imports control.
"""
