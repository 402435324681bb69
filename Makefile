# Everything is done by book/build.py, which needs nothing but Python; this file finds the Python and names the commands.
# Another Python:          make book PYTHON=/path/to/python3.12
# Arguments for pytest:    make test ARGS="-k roofline"
# One benchmark:           make bench ARGS="kernels --quick --family gelu"

ifndef PYTHON
works = $(shell $(1) -c 'import sys; print("yes" * (sys.version_info >= (3, 11)))' 2>/dev/null)
PYTHON := $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(if $(call works,$(name)),$(name))))
endif
missing = $(error Python 3.11 or newer was not found: install it, or name it with  make PYTHON=/path/to/python3)
RUN = $(if $(PYTHON),"$(PYTHON)" book/build.py,$(missing))

.PHONY: help book pdf test lint bench lab colab clean

help:
	@echo "make book   build the book, and print the page to open"
	@echo "make pdf    print the whole book into _build/under-the-roof.pdf (needs Chromium)"
	@echo "make test   run the tests"
	@echo "make lab    open the chapters in JupyterLab"
	@echo "make bench  run the benchmarks"
	@echo "make colab  run the chapters with Colab's versions (some minutes)"
	@echo "make lint   check style and types"
	@echo "make clean  remove what was built (the environment in .venv stays)"

book pdf lab lint:
	@$(RUN) $@

test bench colab:
	@$(RUN) $@ $(ARGS)

clean:
	rm -rf _build book/_static/vendor accel/browser/*.wasm book/jupyter_execute build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
