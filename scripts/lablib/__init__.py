"""The lab: a real kernel with LIO and TCMU, and a command run inside it."""
