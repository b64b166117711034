"""Robots and servos as users hold them, and the connection behind them."""
