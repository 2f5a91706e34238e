"""Formulas of a prediction: its inputs, its closed form, and where that form ends."""
