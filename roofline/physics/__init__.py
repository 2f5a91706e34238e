"""Cost of one forward pass: pure functions of numbers."""
