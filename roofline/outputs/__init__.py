"""Answers as files: tables, pictures, workbooks."""
