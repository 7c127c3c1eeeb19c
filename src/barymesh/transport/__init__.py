"""The library that carries messages between machines: wire format, checks on arrival, links and keys."""
