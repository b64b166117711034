"""Equations of a servo: packed parameters, position laws, motor, friction, steady state, rules of set-points."""
