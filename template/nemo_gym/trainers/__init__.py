"""What trainers need: TRL's adapter, and the settings of verifiers."""
