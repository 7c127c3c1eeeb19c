"""The algorithms: pure state machines on a batch of nodes. Engines run them."""

# those a user can name, in a module that loads nothing; methods.py sets them up
NETWORK_METHODS = ("dcwb", "a2dwb", "a2dwb_naive")
