"""A recording beside another, or beside what a model makes of its commands: figures, tables, pages and pictures."""
