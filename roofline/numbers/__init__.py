"""Numbers of any kind: operations on floats, arrays and traces; root searches; units."""
