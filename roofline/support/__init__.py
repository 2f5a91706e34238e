"""What every room needs: errors, cheap records, bounded reading of files."""
