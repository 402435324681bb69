"""SVG: turn Matplotlib's drawing into one that can live inside a page, light or dark, beside others."""

from __future__ import annotations

import hashlib
import re
from xml.etree import ElementTree

__all__ = ["inline", "writable"]

SVG = "http://www.w3.org/2000/svg"
HREF = "{http://www.w3.org/1999/xlink}href"
FONT_FAMILY = (
    "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','Noto Sans','Liberation Sans',Arial,sans-serif"
)
FONT_SIZE = 10.0
"""Points; the size that text has unless it says otherwise."""
NARROWEST_PIXELS, WIDEST_PIXELS = 340, 600
"""A chart shrinks and grows with the page between these; on a narrower page it scrolls sideways."""
DARKEST = 0x30
"""A color whose channels all stay below this is ink, and takes the color of the page's text."""

_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write, not even escaped: control characters and lone surrogates."""
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_FONT = re.compile(r"(?:(?P<weight>\d{3}|bold) )?(?P<size>[\d.]+)px .*")
_ROOT_STYLE = {
    ("font-size", f"{FONT_SIZE:g}px"),
    ("stroke-linecap", "butt"),
    ("stroke-linejoin", "round"),
    ("stroke-width", "1"),
    ("text-anchor", "start"),
}
"""Declarations that say what holds anyway."""
_REFERENCE = re.compile(r"#([\w.-]+)")


def inline(svg: str, *, title: str, alt: str) -> str:
    """Return `svg` as a self-contained element for a page.

    Ink becomes ``currentColor``, the background stays transparent, identifiers are the chart's own, style sheets
    that would leak into the page are gone, and the element carries its title and description.

    Parameters
    ----------
    svg : str
        What Matplotlib's SVG backend writes, with ``svg.fonttype`` set to ``"none"``.
    title, alt : str
        The finding, and the whole of what there is to see in words.

    Examples
    --------
    >>> from accel.svg import inline
    >>> inline('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"/>', title="T", alt="A")[:60]
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" ar'
    """
    svg, title, alt = map(writable, (svg, title, alt))
    root = ElementTree.fromstring(svg)
    _drop(root, "metadata")
    _drop(root, "style")
    for element in root.iter():
        _simplify(element)
    _own_identifiers(root, "c" + hashlib.sha256((svg + title + alt).encode()).hexdigest()[:8])
    _flatten(root)
    _describe(root, title, alt)
    ElementTree.register_namespace("", SVG)
    return ElementTree.tostring(root, encoding="unicode").replace("\n", "").replace(" />", "/>")


def writable(text: str) -> str:
    r"""Return `text` with the replacement character for what XML cannot hold.

    >>> from accel.svg import writable
    >>> writable("a\x1bb")
    'a\ufffdb'
    """
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _drop(root: ElementTree.Element, tag: str) -> None:
    """Remove every element of one kind."""
    for parent in list(root.iter()):
        for child in parent.findall(f"{{{SVG}}}{tag}"):
            parent.remove(child)


def _simplify(element: ElementTree.Element) -> None:
    """Shorten the attributes of one element, and let ink follow the page."""
    if HREF in element.attrib:
        element.set("href", element.attrib.pop(HREF))
    for name in ("d", "x", "y", "width", "height", "transform", "points"):
        if name in element.attrib and not element.attrib[name].startswith(("matrix", "scale")):
            element.set(name, _shorten(element.attrib[name]))
    if element.get("transform", "").startswith(("rotate(0 ", "rotate(-0 ")):
        del element.attrib["transform"]
    if "style" in element.attrib:
        style = _restyle(element.attrib.pop("style"))
        if style:
            element.set("style", style)
    if element.tag != f"{{{SVG}}}text":
        element.text = None
    element.tail = None


def _shorten(text: str) -> str:
    """Round to a hundredth of a point: less than any screen can show."""
    rounded = _NUMBER.sub(lambda match: f"{float(match[0]):.2f}".rstrip("0").rstrip("."), text)
    return re.sub(r"\s+", " ", rounded).replace("-0 ", "0 ").strip()


def _restyle(style: str) -> str:
    """Keep what differs from the root's style, with ink as ``currentColor``."""
    kept = []
    for declaration in filter(None, (part.strip() for part in style.split(";"))):
        name, _, value = declaration.partition(":")
        value = value.strip()
        if name == "font":
            kept += _font(value)
        elif name == "font-family" or (name, value) in _ROOT_STYLE:
            continue
        elif name in ("fill", "stroke") and _is_ink(value):
            kept.append(f"{name}:currentColor")
        else:
            kept.append(f"{name}:{_shorten(value)}")
    return ";".join(kept)


def _font(value: str) -> list[str]:
    """Reduce a font shorthand, as Matplotlib wrote it until 3.10, to what differs from the root's font."""
    match = _FONT.fullmatch(value)
    if match is None:
        return []
    size = float(match["size"])
    kept = [] if size == FONT_SIZE else [f"font-size:{size:g}px"]
    return kept + ([f"font-weight:{match['weight']}"] if match["weight"] else [])


def _is_ink(color: str) -> bool:
    """Whether a color is black or close to it."""
    return bool(re.fullmatch("#[0-9a-fA-F]{6}", color)) and all(int(color[i : i + 2], 16) < DARKEST for i in (1, 3, 5))


def _own_identifiers(root: ElementTree.Element, prefix: str) -> None:
    """Rename the identifiers that something refers to; drop the others."""
    references = [
        (element, name)
        for element in root.iter()
        for name in ("href", "clip-path", "style")
        if "#" in element.get(name, "")
    ]
    names: dict[str, str] = {}
    known = {element.get("id") for element in root.iter()}
    for element, attribute in references:
        for old in _REFERENCE.findall(element.attrib[attribute]):
            if old in known:
                names.setdefault(old, f"{prefix}-{len(names)}")
    for element, attribute in references:
        element.set(attribute, _REFERENCE.sub(lambda m: f"#{names.get(m[1], m[1])}", element.attrib[attribute]))
    for element in root.iter():
        old_id = element.attrib.pop("id", None)
        if old_id in names:
            element.set("id", names[old_id])


def _flatten(parent: ElementTree.Element) -> None:
    """Replace groups that say nothing by what they hold."""
    for child in list(parent):
        _flatten(child)
        if child.tag in (f"{{{SVG}}}g", f"{{{SVG}}}defs") and (not child.attrib or not len(child)):
            if child.tag.endswith("defs") and len(child):
                continue
            at = list(parent).index(child)
            parent.remove(child)
            for offset, grandchild in enumerate(list(child)):
                parent.insert(at + offset, grandchild)


def _describe(root: ElementTree.Element, title: str, alt: str) -> None:
    """Give the root its role, its words and its place on the page."""
    view_box = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib.update(
        {
            "viewBox": view_box,
            "aria-label": alt,
            "role": "img",
            "fill": "currentColor",
            "stroke-linejoin": "round",
            "font-family": FONT_FAMILY,
            "font-size": f"{FONT_SIZE:g}",
            "style": f"display:block;width:100%;min-width:{NARROWEST_PIXELS}px;max-width:{WIDEST_PIXELS}px;height:auto",
        }
    )
    element = ElementTree.Element(f"{{{SVG}}}title")
    element.text = title
    root.insert(0, element)
