"""The service's page: its addresses and their parameters, without anything from outside."""

from html import escape
from typing import Any

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem }
code, pre { font: 14px/1.4 ui-monospace, monospace; background: #8881; border-radius: 4px }
code { padding: 0 .3em } pre { padding: .6em; overflow-x: auto }
h2 { margin-top: 2rem; font-size: 1.1rem }
td { padding: .1rem 1rem .1rem 0; vertical-align: top }
:root { color-scheme: light dark }
"""
_EXAMPLES = """curl 'http://HOST/recommend/USER?n=5'
curl -H 'Content-Type: application/json' \\
     -d '{"items": ["A", "B"], "n": 5}' http://HOST/recommend
curl http://HOST/similar/ITEM"""


def docs_page(document: dict[str, Any]) -> str:
    """Return the page of an OpenAPI document."""
    sections = [
        _section(path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    title = escape(document["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{_STYLE}</style><h1>{title}</h1>"
        "<p>Questions about the promoted model. The same in OpenAPI: "
        f'<a href="/openapi.json">/openapi.json</a>.</p><pre>{escape(_EXAMPLES)}</pre>'
        f"{''.join(sections)}</html>"
    )


def _section(path: str, method: str, operation: dict[str, Any]) -> str:
    parameters = "".join(
        f"<tr><td><code>{escape(p['name'])}</code><td>{escape(p['description'])} "
        f"{escape(_limits(p['schema']))}"
        for p in operation.get("parameters", ())
    )
    answers = "".join(
        f"<tr><td>{escape(status)}<td>{escape(answer['description'])}"
        for status, answer in operation["responses"].items()
    )
    return (
        f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
        f"<p>{escape(operation['summary'])}</p><table>{parameters}{answers}</table>"
    )


def _limits(schema: dict[str, Any]) -> str:
    if schema["type"] == "integer":
        return f"{schema['minimum']} to {schema['maximum']}, {schema['default']} by default."
    return f"At most {schema['maxLength']:,} characters."
