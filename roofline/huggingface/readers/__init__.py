"""Families of models, one file a sort: what each makes of the fields of its configuration."""
