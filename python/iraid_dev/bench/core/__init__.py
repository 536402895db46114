"""Measuring: what is asked for, how it is done, what a figure is.

row       a figure and where it comes from     cells, plan   what is measured: patterns, sizes, shapes, systems
run       on the host: build, lab, the file    inside        in the lab
systems   iraid, md, plain LUNs                load          fio
report, plots   tables and pictures            processor     its time, by who used it
initiator_settings   queues of the disk that is measured       network   namespaces, and shaped links to targets in them
own_profile   the command of a profile that has options of its own
"""
