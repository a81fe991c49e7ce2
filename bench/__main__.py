"""``python -m bench``."""

from bench.command import run
from fedloom.errors import main

if __name__ == "__main__":
    main(run)
