"""Where methods get the gradients of the nodes from: all of a measure, fresh samples, or samples that grow."""
