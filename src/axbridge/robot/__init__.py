"""What users hold: a robot, its servos, and what stands behind them."""
