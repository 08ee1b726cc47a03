"""Measure how fast a scene runs: ``python benchmark.py --scene SCENE ...`` is ``sap-warp bench --scene SCENE ...``."""

import sys

from sap_warp.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
