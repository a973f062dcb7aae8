"""Prints a part of the manual: `python -m docs.generated options`."""

from __future__ import annotations

import argparse

from docs.generated import PARTS, part

parser = argparse.ArgumentParser(prog="python -m docs.generated", description=__doc__)
parser.add_argument("part", choices=PARTS)
print(part(parser.parse_args().part), end="")
