"""scripts/test: what is run where, how it is counted.

    main         parts, their order, the sum    clean_root, enter-root   the same in a Debian with nothing installed
"""
