"""How a page looks, in light and in dark."""

from base64 import b64encode
from hashlib import sha256
from typing import Final

from tieredfs.cli.picture.palette import COLOURS

__all__ = ["POLICY", "STYLE"]

_LIGHT: Final = (
    "--page:#f6f7f9;--card:#fff;--text:#1c2128;--soft:#57606a;--line:#d0d7de;"
    "--grid:#eaeef2;--alarm:#c5221f;--alarm-soft:#fce8e6;--band:#fff4cc;"
    "--band-line:#b08800;--unknown:#6e7781;--link:#0b57d0"
)
_DARK: Final = (
    "--page:#0d1117;--card:#161b22;--text:#e6edf3;--soft:#9aa4af;--line:#30363d;"
    "--grid:#21262d;--alarm:#ff7b72;--alarm-soft:#3d1518;--band:#3a3107;"
    "--band-line:#d4a72c;--unknown:#8b949e;--link:#79b8ff"
)

_RULES: Final = """
:root{color-scheme:light dark;LIGHT}
@media(prefers-color-scheme:dark){:root{DARK}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1180px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:26px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:21px;margin:40px 0 4px;overflow-wrap:anywhere}
h3{font-size:16px;margin:0;overflow-wrap:anywhere}
p,ul{margin:4px 0 12px}
a{color:var(--link)}
.soft,figcaption p{color:var(--soft)}
figure{margin:16px 0;padding:16px 18px 10px;background:var(--card);
border:1px solid var(--line);border-radius:10px}
figcaption p{margin:0 0 6px}
.scroll{overflow-x:auto}
.scroll:focus-visible,summary:focus-visible,a:focus-visible{
outline:2px solid var(--link);outline-offset:2px}
.findings{list-style:none;padding:0;margin:8px 0;display:flex;flex-wrap:wrap;gap:6px}
.findings li{padding:2px 10px;border:1px solid var(--line);border-radius:14px;
font-size:13.5px}
.findings .missing{background:var(--alarm-soft);border-color:var(--alarm)}
.findings .overlap,.findings .beyond{background:var(--band);
border-color:var(--band-line)}
.errors{padding:10px 14px;background:var(--alarm-soft);border:1px solid var(--alarm);
border-radius:10px;overflow-wrap:anywhere}
.errors ul{padding-left:20px;margin:4px 0}
table{border-collapse:collapse;font-size:13.5px;font-variant-numeric:tabular-nums}
th,td{padding:4px 14px 4px 0;text-align:left;white-space:nowrap;
border-bottom:1px solid var(--grid)}
th{color:var(--soft);font-weight:600}
summary{cursor:pointer;color:var(--soft);padding:6px 0;font-size:13.5px}
.legend{display:flex;flex-wrap:wrap;gap:4px 22px;padding:0;margin:14px 0;
list-style:none;font-size:13.5px;color:var(--soft)}
.legend svg{width:26px;height:16px;min-width:0;display:inline-block;
vertical-align:-3px;margin-right:7px}
svg{display:block;width:100%;height:auto;min-width:720px}
.defs{position:absolute;width:0;height:0;min-width:0}
svg text{font:11.5px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
fill:var(--soft);font-variant-numeric:tabular-nums}
svg .note{fill:var(--text)}
svg .missing{fill:var(--alarm);font-weight:600}
svg .number{fill:var(--text);font-weight:600}
.hull{fill:var(--hue);fill-opacity:.16;stroke:var(--hue);stroke-width:1}
.fill{fill:var(--hue);fill-opacity:.85}
.uncounted .hull{stroke-dasharray:1 2}
.uncounted .fill{fill-opacity:.38}
.unserved .hull{stroke-dasharray:3 2}
.unserved .fill{fill-opacity:.22}
.hatch{fill:url(#hatch)}
.stripe{stroke:var(--soft);stroke-width:1.2;stroke-opacity:.65}
.block:hover .hull,.mark:hover{stroke:var(--text);stroke-width:2}
.overlap{fill:var(--band);stroke:var(--band-line);stroke-dasharray:4 3}
.gap{fill:var(--alarm-soft);stroke:var(--alarm);stroke-dasharray:4 3}
.epoch{fill:var(--hue);fill-opacity:.35;stroke:var(--card)}
.mark{fill:var(--hue)}
.axis{stroke:var(--soft);stroke-width:1}
.grid{stroke:var(--grid);stroke-width:1}
.growth{fill:none;stroke:var(--soft);stroke-width:1;stroke-opacity:.7;
stroke-dasharray:3 3}
.unknown{--hue:var(--unknown)}
@media print{figure{break-inside:avoid}}
"""

STYLE: Final = _RULES.replace("LIGHT", _LIGHT).replace("DARK", _DARK) + "\n".join(
    f".e{number}{{--hue:{colour}}}" for number, colour in enumerate(COLOURS)
)
"""The style sheet."""

_HASH: Final = b64encode(sha256(STYLE.encode()).digest()).decode()

POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; "
    "form-action 'none'"
)
"""What a browser may load or run for the page: its style sheet, and nothing else."""
