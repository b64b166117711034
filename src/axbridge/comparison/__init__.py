"""Two recordings side by side: figures, tables, pages and pictures."""
