"""How Sphinx builds the documentation: `tox -e docs`."""

from importlib.metadata import version as version_of

project = "tieredfs"
author = "the tieredfs authors"
project_copyright = author
version = release = version_of("tieredfs")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "how-to/plugin-template/README.md"]

html_theme = "furo"
html_title = f"tieredfs {version}"

myst_enable_extensions = ["colon_fence", "deflist", "smartquotes"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"  # attributes are documented

# The build is nitpicky, and reaches no network: our own names must resolve, while those
# of other projects have no inventory to be looked up in.
nitpick_ignore_regex = [(r"py:.*", r"(?!tieredfs\b).*")]
