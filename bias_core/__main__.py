"""``python -m bias_core``."""

from bias_core.app.cli import app

if __name__ == "__main__":
    app(prog_name="python -m bias_core")
