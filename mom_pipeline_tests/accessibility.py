"""What axe-core says about a page, where it is installed: `npm install --no-save axe-core`."""

from pathlib import Path

from playwright.sync_api import Page

AXE = Path(__file__).parent.parent / "node_modules" / "axe-core" / "axe.min.js"


def has_axe() -> bool:
    return AXE.exists()


def serious_findings(page: Page) -> list[str]:
    """Findings that axe-core calls serious or critical; none where it is not installed.

    A page with a policy lets it in only when its context was made with bypass_csp.
    """
    if not has_axe():
        return []
    page.evaluate(AXE.read_text(encoding="utf-8"))
    return [
        f"{finding['id']}: {finding['nodes'][0]['html']}"
        for finding in page.evaluate("axe.run()")["violations"]
        if finding["impact"] in ("serious", "critical")
    ]
