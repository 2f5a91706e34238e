"""Results of benchmark tools and tables of timed kernels, read from their files."""
