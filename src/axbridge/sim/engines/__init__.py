"""Physics engines, and uncoupled joints without an engine."""
