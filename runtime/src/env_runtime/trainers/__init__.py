"""Adapters for trainers that need more than NeMo Gym's formats."""
