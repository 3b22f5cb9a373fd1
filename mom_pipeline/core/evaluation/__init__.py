"""Measures of lists (metrics, backtest, intervals) and of components (bounds, agreement, drift)."""
