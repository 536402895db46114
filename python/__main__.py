"""Runs a module of this folder as a program, with the folder on the path:  python3 python MODULE ARGUMENT..."""

import runpy
import sys

if __name__ == "__main__":
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
