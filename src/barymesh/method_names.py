"""The methods that a user can name, in a module that loads nothing; decentralized/build.py sets them up."""

# those that run on a network
NETWORK_METHODS = ("sinkhorn", "rounds", "a2dwb_conserving", "a2dwb", "a2dwb_naive", "dcwb", "gossip_sinkhorn")
# those that run without one too
EXACT_METHODS = ("sinkhorn", "rounds")
# those whose nodes wait for one another
SYNCHRONOUS = ("dcwb", "gossip_sinkhorn")
# those that have no step to choose
WITHOUT_STEP = ("sinkhorn", "rounds", "gossip_sinkhorn")
# those that find debiased barycenters too
DEBIASED_METHODS = ("sinkhorn", "rounds")
