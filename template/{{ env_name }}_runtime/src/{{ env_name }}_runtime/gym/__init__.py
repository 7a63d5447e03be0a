"""NeMo Gym's own command line, run out of this project's venv."""
