"""Checkpoints by the headers of their files: tensors and number formats, without reading weights."""
