"""Builds the book, runs its tests and opens its chapters. Needs only Python >= 3.11: it makes the rest itself.

    python book/build.py book     what `make book` runs; likewise pdf, test, lab, bench, lint, colab

The environment is `.venv` in the root of the clone. A step whose inputs did not change is skipped.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
VENDOR = ROOT / "book" / "_static" / "vendor"
AXE = ROOT / "tests" / "site" / "vendor" / "axe.min.js"
"""Finds what keeps readers out of a page; the tests use it, and it is no part of the site."""
BENCHMARKS = ("kernels", "prediction", "advice")
PEERS = ROOT / "benchmarks" / "requirements.txt"
# Tests that compute, count and look, and do not time.
SIDE_BY_SIDE = ("tests/cache", "tests/kernels", "tests/site", "tests/tracing")
# Among them, those that time what a page does.
TIMED_PAGES = ("tests/site/test_measure_in_page.py", "tests/site/test_weight.py")
STREAMS = ROOT / "accel" / "browser" / "streams.wat"
GET_NPM = "it comes with Node.js: apt-get install npm, brew install node, or nodejs.org"
# What npm makes, and what is so without it.
WITHOUT_NPM = {
    VENDOR: "the pages will load MathJax and the widgets from a CDN and need a network",
    STREAMS.with_suffix(".wasm"): "the page that measures its reader's machine will do so in plain JavaScript",
}
PAGE = ROOT / "_build" / "html" / "book" / "index.html"
PDF = ROOT / "_build" / "under-the-roof.pdf"
REQUIREMENTS = {
    "book": (ROOT / "requirements.txt",),
    "test": (ROOT / "requirements.txt", ROOT / "tests" / "requirements.txt"),
}

# Not the script in the environment: that one holds an absolute path. After a failure Sphinx has said why; click's trace
# would bury it.
JUPYTER_BOOK = """
from jupyter_book.cli.main import main
try:
    main()
except RuntimeError:
    raise SystemExit(1) from None
"""
# From npm package to the site: what pages with widgets or formulas load.
VENDOR_FILES = {
    "requirejs/require.js": "require.js",
    "@jupyter-widgets/html-manager/dist/embed-amd.js": "embed-amd.js",
    "mathjax/es5/tex-chtml.js": "mathjax/tex-chtml.js",
    "mathjax/es5/input/tex/extensions": "mathjax/input/tex/extensions",
    "mathjax/es5/output/chtml/fonts/woff-v2": "mathjax/output/chtml/fonts/woff-v2",
    "mathjax/es5/a11y": "mathjax/a11y",
    "mathjax/es5/sre/mathmaps/base.json": "mathjax/sre/mathmaps/base.json",
    "mathjax/es5/sre/mathmaps/en.json": "mathjax/sre/mathmaps/en.json",
    "mathjax/LICENSE": "mathjax/LICENSE",
}
# html-manager asks for its fonts under two paths: beside itself, and under the name of its own package.
FONT_HOMES = ("", "@jupyter-widgets/html-manager/dist/")
FONT_SUFFIXES = frozenset({".woff", ".woff2", ".ttf", ".eot", ".svg"})


def fail(message: str) -> SystemExit:
    """Return the exit that prints one line and no trace."""
    return SystemExit(f"build.py: {message}")


def say(message: str) -> None:
    """Print a line now, so that it stands before the output of the commands that follow it."""
    print(message, flush=True)


def digest_of(paths: Iterable[Path], *salts: str) -> str:
    """Return a hash of files (in the order given) and of the strings in `salts`."""
    digest = hashlib.sha256("\0".join(salts).encode())
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def run(command: Sequence[str | Path], purpose: str, cwd: Path = ROOT) -> None:
    """Run a command and stop with one line, below the command's own messages, if it fails."""
    status = subprocess.run([str(part) for part in command], cwd=cwd, check=False).returncode
    if status:
        raise fail(f"{purpose} failed (exit status {status}); the reason stands above.")


# --- the environment ---------------------------------------------------------------------------------------------


def venv_python() -> Path:
    """Return the path of the environment's own interpreter."""
    return ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def check_python() -> None:
    """Refuse a Python that cannot run accel or make an environment."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this file also runs before there is an environment
        raise fail(f"Python 3.11 or newer is needed; {sys.executable} is {sys.version.split()[0]}.")
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise fail(
                f"this Python has no {module} module; on Debian and Ubuntu: apt-get install python3-venv "
                f"(Python is {sys.executable})."
            )


def make_environment(purpose: str) -> Path:
    """Make `.venv` with accel (editable) and what `purpose` requires, unless that is there; return its Python."""
    python = venv_python()
    works = python.exists() and subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0
    if not works:
        check_python()
        say(f"Making the environment {ENVIRONMENT.name} with Python {sys.version.split()[0]}")
        run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], "making the environment")
    requirements = REQUIREMENTS[purpose]
    stamp = ENVIRONMENT / f".installed-{purpose}"
    # The path is part of it: a clone that moved needs its editable install again.
    wanted = digest_of([*requirements, ROOT / "pyproject.toml"], str(ROOT))
    if not (stamp.exists() and stamp.read_text(encoding="utf-8") == wanted):
        say(f"Installing the packages of the {purpose} (a minute or two the first time)")
        files = [part for path in requirements for part in ("-r", str(path))]
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*install, *files, "-e", str(ROOT)], "installing the packages")
        stamp.write_text(wanted)
    return python


# --- the JavaScript that the site serves itself --------------------------------------------------------------------


def find_anywidget(python: Path) -> Path:
    """Return anywidget's script for pages without a kernel; it comes with the Python package."""
    code = "import importlib.util as u; print(u.find_spec('anywidget').submodule_search_locations[0])"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    return Path(found) / "nbextension" / "index.js"


def copy_vendor_files(modules: Path, anywidget: Path, target: Path) -> None:
    """Copy what the pages load from an npm `node_modules` folder to `target`."""
    for source, name in VENDOR_FILES.items():
        destination = target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (modules / source).is_dir() else shutil.copyfile)(modules / source, destination)
    for font in (modules / "@jupyter-widgets/html-manager/dist").iterdir():
        if font.suffix in FONT_SUFFIXES:
            for home in FONT_HOMES:
                (target / home).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(font, target / home / font.name)
    shutil.copyfile(anywidget, target / "anywidget.js")


def assemble(modules: Path) -> None:
    """Assemble, beside its text, the WebAssembly that measures a reader's machine in the page."""
    wat2wasm: list[str | Path] = ["node", modules / "wabt/bin/wat2wasm", STREAMS, "-o", STREAMS.with_suffix(".wasm")]
    run(wat2wasm, f"assembling {STREAMS.name}")


def vendor_javascript(python: Path) -> None:
    """Install the site's JavaScript from npm into `book/_static/vendor`, unless it is there or npm is missing."""
    npm = shutil.which("npm")
    if npm is None:
        lost = [loss for made, loss in WITHOUT_NPM.items() if not made.exists()]
        if lost:
            say(f"npm was not found ({GET_NPM}): {', and '.join(lost)}.")
        return
    anywidget = find_anywidget(python)
    wanted = digest_of([ROOT / "package-lock.json", anywidget, Path(__file__), STREAMS])
    stamp = VENDOR / ".stamp"
    made = AXE.exists() and STREAMS.with_suffix(".wasm").exists()
    if made and stamp.exists() and stamp.read_text() == wanted:
        return
    say("Installing the JavaScript of the pages with npm")
    # Not in the clone: of 150 MB, 5 are wanted.
    with tempfile.TemporaryDirectory() as folder:
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copyfile(ROOT / name, Path(folder) / name)
        run([npm, "ci", "--silent"], "npm ci", cwd=Path(folder))
        shutil.rmtree(VENDOR, ignore_errors=True)
        copy_vendor_files(Path(folder) / "node_modules", anywidget, VENDOR)
        AXE.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(folder) / "node_modules" / "axe-core" / "axe.min.js", AXE)
        assemble(Path(folder) / "node_modules")
    stamp.write_text(wanted)


# --- the commands --------------------------------------------------------------------------------------------------


def build_book() -> None:
    """Execute the chapters that changed and write the site; warnings are errors."""
    python = make_environment("book")
    vendor_javascript(python)
    # Before the chapters, so that the progress bar is seen here and not drawn on a page.
    run([python, "-c", "import accel; accel.this_machine()"], "measuring what this machine can do")
    try:
        run([python, "-c", JUPYTER_BOOK, "build", ".", "-W", "--keep-going"], "building the book")
    except SystemExit:
        # Or the next build would find every page up to date, and pass without the warnings that failed this one.
        shutil.rmtree(ROOT / "_build" / ".doctrees", ignore_errors=True)
        raise
    say(f"\nThe book is built. Open this page:\n  {PAGE}\n  {PAGE.as_uri()}")


def print_pdf() -> None:
    """Build the book and print all of it into one PDF, through Chromium."""
    python = make_environment("test")
    build_book()
    run([python, ROOT / "book" / "paper.py", ROOT / "_build" / "html", PDF], "printing the book")


def run_on_colab(pages: Sequence[str]) -> None:
    """Run the chapters with the versions that Colab has, on two CPUs and within 2 GB."""
    python = make_environment("test")
    run([python, ROOT / "tests" / "colab" / "run.py", *pages], "running the chapters as Colab would")


def run_tests(arguments: Sequence[str]) -> None:
    """Build the book, which the tests of the site read, and run pytest with `arguments`.

    Without arguments, tests that do not time anything run first, one on each processor; the others run after them, one
    at a time. With arguments, pytest gets them as they are.
    """
    python = make_environment("test")
    build_book()
    beside = ["-n", "logical", "--dist", "loadfile", *SIDE_BY_SIDE, *(f"--ignore={name}" for name in TIMED_PAGES)]
    alone = ["tests", *(f"--ignore={name}" for name in SIDE_BY_SIDE)]
    runs = [[*arguments]] if arguments else [beside, alone, [*TIMED_PAGES]]
    statuses = [subprocess.run([python, "-m", "pytest", *run], cwd=ROOT, check=False).returncode for run in runs]
    raise SystemExit(max(statuses, key=abs))


def lint() -> None:
    """Check formatting, style and types."""
    python = make_environment("test")
    run([python, "-m", "ruff", "format", "--check", "."], "the check of the format")
    run([python, "-m", "ruff", "check", "."], "the check of the style")
    run([python, "-m", "mypy"], "the check of the types")
    run([python, "-m", "mypy", "book/build.py", "book/_ext"], "the check of the types of the build")


def install_peers(python: Path) -> None:
    """Install what the kernels are compared with, each by itself; name what cannot be installed and go on."""
    stamp = ENVIRONMENT / ".installed-bench"
    wanted = digest_of([PEERS])
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    lines = [line.strip() for line in PEERS.read_text(encoding="utf-8").splitlines()]
    options = [part for line in lines if line.startswith("-") for part in line.split()]
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options]
    missing = []
    for peer in (line for line in lines if line and not line.startswith(("-", "#"))):
        say(f"Installing {peer}, to compare with")
        if subprocess.run([*install, peer], cwd=ROOT, check=False).returncode:
            missing.append(peer)
            say(f"{peer} could not be installed and is left out; the next run tries again.")
    if not missing:
        stamp.write_text(wanted, encoding="utf-8")


def run_benchmarks(arguments: Sequence[str]) -> None:
    """Run every benchmark, one after the other, or the one that is named first, with its own options."""
    name, *options = arguments or [""]
    if name and name not in BENCHMARKS:
        raise fail(f"bench takes the name of a benchmark, {', '.join(BENCHMARKS)}, and its options; got {name!r}.")
    python = make_environment("book")
    install_peers(python)
    for benchmark in [name] if name else BENCHMARKS:
        say(f"\n== {benchmark}")
        run([python, ROOT / "benchmarks" / f"{benchmark}.py", *options], f"the benchmark {benchmark}")


def lab_command(python: Path, environment: Path) -> list[str]:
    """Return the command of a JupyterLab in `environment` that opens the chapters (MyST .md files) as notebooks."""
    # In the environment, not in the reader's home: their own JupyterLab stays as it is.
    settings = environment / "etc" / "jupyter" / "labconfig" / "default_setting_overrides.json"
    viewer = [str(python), "-m", "jupytext_config", "--settings-file", str(settings), "set-default-viewer", "markdown"]
    run(viewer, "setting JupyterLab's viewer of chapters")
    return [str(python), "-m", "jupyterlab", "--LabApp.default_url=/lab/tree/book/index.md"]


def open_lab(arguments: Sequence[str]) -> None:
    """Start JupyterLab in the root of the clone, with what its widgets need; without npm or a network, with less."""
    python = make_environment("book")
    try:
        vendor_javascript(python)
    except SystemExit as problem:
        say(f"{problem} JupyterLab opens without it: {WITHOUT_NPM[STREAMS.with_suffix('.wasm')]}.")
    command = lab_command(python, ENVIRONMENT)
    raise SystemExit(subprocess.run([*command, *arguments], cwd=ROOT, check=False).returncode)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that `arguments` name."""
    parser = argparse.ArgumentParser(prog="build.py", description="Build the book, test it, open it.")
    parser.add_argument("command", choices=["book", "pdf", "test", "lab", "bench", "lint", "colab"])
    parser.add_argument(
        "rest", nargs=argparse.REMAINDER, help="passed on to pytest, a benchmark or JupyterLab; pages for colab"
    )
    options = parser.parse_args(arguments)
    if options.command == "test":
        run_tests(options.rest)
    elif options.command == "lab":
        open_lab(options.rest)
    elif options.command == "bench":
        run_benchmarks(options.rest)
    elif options.command == "colab":
        run_on_colab(options.rest)
    else:
        {"book": build_book, "pdf": print_pdf, "lint": lint}[options.command]()


if __name__ == "__main__":
    main()
