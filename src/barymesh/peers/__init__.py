"""The application for networks of organisations: network file and kits, node, status and log."""
