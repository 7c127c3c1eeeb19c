"""The gradients that methods use: from all of a measure, from fresh samples, or from samples that grow."""
