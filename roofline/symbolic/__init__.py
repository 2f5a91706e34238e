"""Numbers that remember where they came from, and the formulas that they print."""
