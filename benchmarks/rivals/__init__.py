"""Published methods that need a server, or that solve the problem without regularisation: to compare with, not to use.

They are no methods of the library: two of them are not decentralised, and two find another measure than the entropic
barycenter. Each is as its paper has it, in plain NumPy, with the paper's clock and delays in virtual time. All measures
are histograms on one support, with equal weights.
"""
