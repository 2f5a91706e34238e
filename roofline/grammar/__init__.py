"""How people write values: one parser each for sizes, lists, shares, times, measurements and pools of GPUs."""
