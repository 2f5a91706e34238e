"""What one pass through a model costs on a machine: pure functions of numbers."""
