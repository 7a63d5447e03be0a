"""Questions of a dataset, with a grade."""

DomainClass = object  # unfinished: env_runtime.rows writes the class
