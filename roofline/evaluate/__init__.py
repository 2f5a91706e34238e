"""Other kinds of number and other questions; numpy and sympy have their homes here."""
