"""Places to run an algorithm: in virtual time on one machine, and later in processes, on a cluster, among peers."""
