"""Write a picture of every page, at 1400 and 390 pixels, light and dark.

python tests/site/screenshots.py FOLDER [PAGE ...]
"""

from __future__ import annotations

import argparse
import base64
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from chromium import Browser, find_chromium, serve
from pages import ROOT, table_of_contents

WIDTHS = (1400, 390)
THEMES = ("light", "dark")


def resize(browser: Browser, width: int, height: int = 900) -> None:
    """Give the page a screen of this size."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def picture(browser: Browser, width: int) -> bytes:
    """Return the whole page as PNG."""
    resize(browser, width, browser.script("return Math.ceil(document.documentElement.scrollHeight)"))
    return base64.b64decode(browser.driver.execute_cdp_cmd("Page.captureScreenshot", {})["data"])


def take(browser: Browser, address: str, page: str, folder: Path) -> None:
    """Write the four pictures of a page."""
    for width in WIDTHS:
        for theme in THEMES:
            resize(browser, width)
            browser.driver.get(f"{address}/{page}.html")
            browser.script(
                "localStorage.setItem('mode', arguments[0]); localStorage.setItem('theme', arguments[0])", theme
            )
            browser.open(f"{address}/{page}.html")
            target = folder / f"{Path(page).name}-{width}-{theme}.png"
            target.write_bytes(picture(browser, width))
            print(target)


def main() -> None:
    """Take the pictures of the pages that the command line names, or of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pages", nargs="*", help="such as book/roofline; all pages by default")
    options = parser.parse_args()
    found = find_chromium()
    if found is None:
        raise SystemExit("no chromium with chromedriver on this machine")
    options.folder.mkdir(parents=True, exist_ok=True)
    browser = Browser(*found)
    try:
        with serve(ROOT / "_build" / "html") as address:
            for page in options.pages or table_of_contents():
                take(browser, address, page, options.folder)
    finally:
        browser.close()


if __name__ == "__main__":
    main()
