"""What the template owns: its parts change with `copier update`."""
