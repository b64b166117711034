"""What every page and picture shares: the page's frame, tables, and plots described once, drawn twice."""
