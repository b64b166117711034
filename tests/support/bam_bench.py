"""BAM's pendulum bench as its paper and documentation describe it, written again: what its figures are measured with.

Logs are put on an even 5 ms grid, goals between two samples on the line between them. A step: duty = gain · kp · error;
torque = kt·(U - kt·ω)/R; the friction budget, with the viscous part in it, stops the arm or slows it; semi-implicit Euler.
"""

import math

import numpy as np

STEP = 0.005  # s
GRAVITY = 9.80665


def processed(log):
    """A log on the even grid."""
    entries = log["entries"]
    times = [entry["timestamp"] for entry in entries]
    grid = np.arange(0.0, times[-1], STEP)
    columns = {
        name: np.interp(grid, times, [float(entry[name]) for entry in entries]) for name in entries[0] if name != "load"
    }
    columns["torque_enable"] = columns["torque_enable"] > 0.5
    rows = [
        {"load": 0, **{name: column[k].item() for name, column in columns.items()}, "timestamp": time.item()}
        for k, time in enumerate(grid)
    ]
    return {**log, "entries": rows}


def budget(p, motor, external, speed):
    at_rest = math.exp(-(abs(speed / p["dtheta_stribeck"]) ** p["alpha"])) if "alpha" in p else 0.0
    total = p["friction_base"] + at_rest * p.get("friction_stribeck", 0.0)
    if "load_friction_base" in p:
        total += (p["load_friction_base"] + at_rest * p.get("load_friction_stribeck", 0.0)) * abs(external - motor)
    if "load_friction_motor" in p:
        total += abs(external * p["load_friction_external"] - motor * p["load_friction_motor"])
        apart = external * p["load_friction_external_stribeck"] - motor * p["load_friction_motor_stribeck"]
        total += at_rest * abs(apart)
    if "load_friction_motor_quad" in p and motor * external < 0.0:
        stronger = abs(motor) > abs(external)
        total += at_rest * (
            p["load_friction_external_quad"] * external**2 if stronger else p["load_friction_motor_quad"] * motor**2
        )
    return total


def mean_error(p, log, gain):
    """Mean absolute error of a processed log, degrees."""
    entries = log["entries"]
    inertia = log["mass"] * log["length"] ** 2 + p["armature"]
    angle, speed = entries[0]["position"], entries[0]["speed"]
    wrong = []
    for entry in entries:
        wrong.append(abs(angle - entry["position"]))
        volts = log["vin"] * min(max((entry["goal_position"] - angle) * log["kp"] * gain, -1.0), 1.0)
        external = -GRAVITY * log["mass"] * log["length"] * math.sin(angle + p.get("q_offset", 0.0))
        motor = p["kt"] * (volts - p["kt"] * speed) / p["R"] if entry["torque_enable"] else 0.0
        most = budget(p, motor, external, speed) + p["friction_viscous"] * abs(speed)
        stopping = inertia / STEP * speed + motor + external
        speed += STEP / inertia * (motor + external - math.copysign(min(abs(stopping), most), stopping))
        angle += STEP * speed
    return math.degrees(np.mean(wrong))
