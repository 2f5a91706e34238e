"""Questions about predictions: what moves them, what would meet a target, how they compare."""
