"""Arguments of the public functions, parsed and checked before the inner packages see them."""
