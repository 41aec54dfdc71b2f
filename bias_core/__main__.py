"""``python -m bias_core``."""

from bias_core.cli import app

if __name__ == "__main__":
    app(prog_name="python -m bias_core")
