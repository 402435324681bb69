"""The kernel families of the benchmark, a module each with `cases(quick)`."""
