"""A prediction as the cells of a spreadsheet."""
