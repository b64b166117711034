"""Compare a recording with another one, or with a simulation of its commands: figures, tables, pages and pictures."""
