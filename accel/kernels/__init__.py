"""The computations under study, one module a family."""
