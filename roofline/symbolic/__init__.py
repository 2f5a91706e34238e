"""Formulas as graphs, and what is read off them: values, slopes, programs, and the text of several languages."""
