"""No motor stays powered behind a program that has ended."""
