"""The barycenter of samples that stay where they are."""
