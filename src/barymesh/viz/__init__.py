"""What people see: figures, progress, HTML."""
