"""Published methods to compare with: message machines without a root."""
