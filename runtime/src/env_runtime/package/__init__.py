"""Environment packages and datasets for NeMo Platform: what is in them, and the rules."""
