"""Checkpoints by their headers: what is stored in which format, without reading a weight."""
