"""What axe-core says about a page."""

from importlib.resources import files

from playwright.sync_api import Page

_AXE = files("axe_playwright_python") / "axe.min.js"


def serious_findings(page: Page) -> list[str]:
    """Findings that axe-core calls serious or critical.

    A page with a policy lets it in only when its context was made with bypass_csp.
    """
    page.evaluate(_AXE.read_text(encoding="utf-8"))
    return [
        f"{finding['id']}: {finding['nodes'][0]['html']}"
        for finding in page.evaluate("axe.run()")["violations"]
        if finding["impact"] in ("serious", "critical")
    ]
