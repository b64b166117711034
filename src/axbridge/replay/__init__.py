"""A recording's commands through a model."""
