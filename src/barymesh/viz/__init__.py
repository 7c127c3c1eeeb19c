"""Figures, animations, pages and tables of results."""
