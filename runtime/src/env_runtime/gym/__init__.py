"""NeMo Gym's own command line, run from this project's venv."""
