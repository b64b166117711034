"""The first hour of a robot on copper: what is looked at, what is found wrong, and which promises were seen to hold."""
