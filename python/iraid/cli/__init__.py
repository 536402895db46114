"""What is typed: the `iraid` command (click), and upgrade-runner.

    main        the program; commands that make, start, stop and show volumes
    commands    what all commands have in common: options, how they are declared, what they print, how they ask
    report      tables and sentences (rich)    progress   waiting for long work    completion   names, for the shell
    upgrade     the program upgrade-runner

The other modules are commands, called as what is typed is.  It imports all other packages; none imports it.
"""
