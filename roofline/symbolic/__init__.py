"""Formulas as graphs, and their values, gradients, programs and texts in several languages."""
