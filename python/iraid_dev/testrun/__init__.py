"""scripts/test and scripts/check-layers: what is run where, how it is counted; what may depend on what.

    main         parts, their order, the sum    clean_root, enter-root   the same in a Debian with nothing installed
    layers       scripts/check-layers: which layer may use what
"""
