"""scripts/demo: the main job from start to end, with real parts.

outside   the command: build, lab, the closing table    inside   the two stories, in the lab    tree   a source tree
"""
