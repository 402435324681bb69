"""The content policy that the build writes, and what it mends in pages, without a build."""

from __future__ import annotations

import sys

import pytest
from pages import ROOT

sys.path.insert(0, str(ROOT / "book/_ext"))
from accessible_markup import mend
from content_policy import inline_hashes, policy_for, script_hosts, source_hash, with_policy

PAGE = '<html><head>\n<script>a()</script><script type="application/json">{}</script></head><body>{}</body></html>'


def test_only_scripts_that_run_are_hashed() -> None:
    assert inline_hashes(PAGE) == ([source_hash("a()")], [])


def test_handlers_are_hashed_as_the_browser_reads_them() -> None:
    page = PAGE.replace("{}</body>", '<button onclick="f(&quot;x&quot;)">b</button></body>')
    assert inline_hashes(page)[1] == [source_hash('f("x")')]
    assert "'unsafe-hashes'" in policy_for(page)
    assert "'unsafe-hashes'" not in policy_for(PAGE)


def test_a_cdn_is_allowed_only_where_the_page_needs_it() -> None:
    page = PAGE.replace("<script>", '<script src="https://cdn.example.org/x.js"></script><script>')
    assert script_hosts(PAGE) == []
    assert script_hosts(page) == ["https://cdn.example.org"]
    assert "script-src 'self' blob: 'wasm-unsafe-eval' https://cdn.example.org 'sha256-" in policy_for(page)


def test_writing_the_policy_twice_changes_nothing() -> None:
    once = with_policy(PAGE)
    assert once.index("Content-Security-Policy") < once.index("<script>")
    assert with_policy(once) == once


@pytest.mark.parametrize("html", ['<summary aria-label="Toggle hidden content">Show</summary>', PAGE])
def test_mending_twice_changes_nothing(html: str) -> None:
    assert mend(mend(html)) == mend(html)


def test_a_page_may_allow_the_handlers_of_others() -> None:
    page = '<html><head></head><body><button onclick="first()">a</button></body></html>'
    other = source_hash("second()")
    allowed = policy_for(page, [other]).split("script-src ")[1].split(";")[0].split()
    assert {"'unsafe-hashes'", source_hash("first()"), other} <= set(allowed)
    assert other not in policy_for(page)
