"""How volumes and their machine are: seen, judged, told.

    verdict   a volume in one word, and what to do    doctor, facts   what is wrong on this gateway; what that is seen by
    follow    events as they come                     monitor, notify   who watches all the time, and whom it tells
    stats     figures since the start                 top, top_screen   these as rates; on a screen
    advice    what slows the members, and what to set throughput      what a volume could do
    standing  what Pacemaker's agent asks about a volume
    sysctls   this kernel's settings                  support, redact   an archive for those who help, without secrets

It imports control and lio.
"""
