"""The algorithms: pure state machines on a batch of nodes. Engines run them."""

# those a user can name, in a module that loads nothing; methods.py sets them up
NETWORK_METHODS = ("sinkhorn", "a2dwb_conserving", "a2dwb", "a2dwb_naive", "dcwb", "gossip_sinkhorn")
# those whose nodes wait for one another
SYNCHRONOUS = ("dcwb", "gossip_sinkhorn")
# those that have no step to choose
WITHOUT_STEP = ("sinkhorn", "gossip_sinkhorn")
