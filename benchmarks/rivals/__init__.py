"""Published methods that need a server, or that solve the problem without regularisation: to compare with, not to use.

They are not methods of the library: three of them need a server or a curator, and three find another measure than the
entropic barycenter. Three follow their papers, with the clock and delays of the A2DWB paper in virtual time; of output
perturbation only the abstract was available, and its file says what is assumed. All are in plain NumPy, and all
measures have equal weights. tests/benchmarks/test_rivals.py checks each where the answer is known: for normal
distributions, and for output perturbation by the size of its noise.
"""
