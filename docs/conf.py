"""How Sphinx builds the manual: `make docs` writes it into site/."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "packages" / "spark"))

from sphinx.ext.autodoc.mock import _MockModule

from docs.generated import filled_in
from tandem_kafka.version import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class _PySpark(_MockModule):
    """Stands for PySpark, which is a large download, while the Spark part is imported."""

    __version__ = "4.0"


sys.modules["pyspark"] = _PySpark("pyspark")
autodoc_mock_imports = ["prometheus_client", "pyspark"]

project = "tandem-kafka"
author = "the tandem-kafka authors"
copyright = author  # noqa: A001 - Sphinx reads this name
release = __version__
version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]

# Markdown. A heading can be linked to by its words: [text](page.md#its-words).
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# Docstrings: `name` in single backquotes is code, as in Markdown.
default_role = "code"
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

# Quotes in tables are part of a value.
smartquotes = False

html_theme = "furo"
html_title = f"tandem-kafka {release}"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_favicon = "_static/favicon.svg"
#: The contents of a page of the API name `assign()`, not the class that the page is about.
toc_object_entries_show_parents = "hide"
#: Where the manual is published, for canonical links; and the repository, for "view this page".
html_baseurl = os.environ.get("DOCS_URL", "")
html_theme_options: dict[str, object] = {"top_of_page_buttons": []}
if repository := os.environ.get("DOCS_REPOSITORY"):
    html_theme_options = {
        "source_repository": repository,
        "source_branch": os.environ.get("DOCS_BRANCH", "main"),
        "source_directory": "docs/",
    }
pygments_style = "friendly"
pygments_dark_style = "github-dark"

exclude_patterns = ["_build"]


def _fill_in(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = filled_in(source[0])
    if page == app.config.root_doc:
        source[0] += _contents(source[0])


def _contents(index: str) -> str:
    """Return what the sidebar shows: the lists of links of the index, by their headings."""
    tables = []
    for section in index.split("\n## ")[1:]:
        caption, _, links = section.partition("\n")
        pages = re.findall(r"^- \[.+\]\((.+)\.md\)$", links, re.MULTILINE)
        tables.append(
            "\n".join([":::{toctree}", f":caption: {caption}", ":hidden:", "", *pages, ":::"])
        )
    return "\n\n" + "\n\n".join(tables) + "\n"


def _without_options(*given: object) -> None:
    """Leave the options out of the docstrings of consumers: they have a page."""
    lines = given[-1]
    if isinstance(lines, list) and "Options:" in lines:
        del lines[lines.index("Options:") :]


def setup(app: Sphinx) -> None:
    """Put the parts that are made from the code into the pages."""
    app.connect("source-read", _fill_in)
    app.connect("autodoc-process-docstring", _without_options, priority=400)  # before napoleon
