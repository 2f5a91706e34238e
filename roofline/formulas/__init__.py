"""Answers as formulas: their inputs by name, the end of their regime, their closed form."""
