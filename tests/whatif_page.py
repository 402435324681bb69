"""The explorer's JavaScript in a real browser, without its controls: what it computes, and what it refuses."""

from __future__ import annotations

import base64
import json
from typing import Any

from chromium import Browser

from accel.whatif.widget import script

_LOAD = """
const [code, done] = arguments;
import("data:text/javascript;base64," + code).then(
    (module) => { globalThis.whatif = module.default.model; done(""); },
    (error) => done(String(error)),
);
"""
_CALL = """
const [name, given, done] = arguments;
const say = (answer) => done(JSON.stringify(answer));
const failed = (error) => say({ error: String(error) });
Promise.resolve(whatif[name](...JSON.parse(given))).then((found) => say({ found }), failed);
"""


class Page:
    """A blank page that has loaded the explorer's modules."""

    def __init__(self, browser: Browser, address: str = "data:text/html,<title>what-if</title>") -> None:
        self._driver = browser.driver
        self._driver.get(address)
        self._driver.set_script_timeout(60)
        problem = self._driver.execute_async_script(_LOAD, base64.b64encode(script().encode()).decode())
        assert not problem, problem

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the model; numbers travel as JSON."""
        answer = json.loads(self._driver.execute_async_script(_CALL, name, json.dumps(arguments)))
        assert "error" not in answer, answer["error"]
        return answer["found"]
