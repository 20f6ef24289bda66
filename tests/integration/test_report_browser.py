"""The report in a real browser: no errors, hostile text stays text, the buttons work, nothing overflows a phone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from horma_rl.viewer.report import render_page
from tests.report_parts import HOSTILE, outline, report

pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
)  # fmt: skip
PROBE = """
<script>
addEventListener("load", () => {
  const shown = () => [...document.querySelectorAll(".pair")].filter((pair) => !pair.hidden).length;
  const found = [shown()];
  for (const name of ["worse", "better", "all"]) {
    document.querySelector(`button[data-show=${name}]`).click();
    found.push(shown());
  }
  document.querySelector("button[data-unfold]").click();
  const body = document.documentElement;
  const unfolded = body.classList.contains("unfolded");
  document.body.dataset.probe = [...found, unfolded, body.scrollWidth <= body.clientWidth].join(" ");
});
</script>
"""


def load(page: str, tmp_path: Path, width: int = 1280) -> tuple[str, str]:
    """The DOM after scripts ran, and what the browser wrote to its console."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8", errors="replace")
    command = [
        CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900", "--dump-dom",
        path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    console = "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)
    return done.stdout, console


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    dom, console = load(render_page(report(HOSTILE)), tmp_path)
    assert console == ""
    assert 'class="scripted"' in dom
    parsed, plain = outline(dom), outline(render_page(report()))
    for name in ("script", "article", "img", "table", "li", "section"):
        assert parsed.counts.get(name, 0) == plain.counts.get(name, 0), name


def test_the_policy_stops_a_script_that_slipped_in(tmp_path: Path) -> None:
    page = render_page(report()).replace("</body>", "<script>document.title = 'pwned'</script></body>")
    dom, console = load(page, tmp_path)
    assert "<title>pwned</title>" not in dom
    assert "Content Security Policy" in console


@pytest.mark.parametrize("width", [500, 1280])
def test_buttons_work_and_nothing_overflows(width: int, tmp_path: Path) -> None:
    page = render_page(report("a long plain text without any point " * 6))
    policy = page.index("<meta http-equiv")
    unguarded = page[:policy] + page[page.index(">", policy) + 1 :]
    dom, console = load(unguarded.replace("</body>", f"{PROBE}</body>"), tmp_path, width)
    assert console == ""
    assert 'data-probe="1 0 1 1 true true"' in dom
