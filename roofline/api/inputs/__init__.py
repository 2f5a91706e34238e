"""What a caller writes, as what the rings take: coerced, checked, refused by name."""
