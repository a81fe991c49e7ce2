"""Snakemake's own lint, without the one message that asks for a conda environment or container for each rule.

The environment is .venv, from requirements.lock. Ends non-zero where another message is left, or none came at all.
"""

import re
import subprocess
import sys

ACCEPTED = "Specify a conda environment or container for each rule."

command = [sys.executable, "-m", "snakemake", "--lint"]
output = subprocess.run(command, check=False, capture_output=True, text=True).stderr
titles = re.findall(r"^ +\* (.*):$", output, re.MULTILINE)
left = [title for title in titles if title != ACCEPTED]
if left or not titles:
    sys.exit("\n".join([output, *left]))
