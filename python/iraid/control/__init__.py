"""What all other packages stand on: asking the handler, and what its answers are.

    client     the control socket (JSON-RPC)        model    what crosses it
    errors     what went wrong, and what to do      units    sizes and times as they are typed and shown
    settings   gateway.conf, as the handler's own parser reads it
    wording    what several commands say in the same words

It imports no other package of iraid.
"""
