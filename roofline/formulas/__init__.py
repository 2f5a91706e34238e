"""The formulas of an answer: what it depends on, its closed form, and where that form ends."""
