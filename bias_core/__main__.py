"""The program, as ``t2i-bias`` or ``python -m bias_core``: the app, or the command line where a command is given."""

import sys


def main() -> None:
    """Run the command that was given; without one, serve the app."""
    if sys.argv[1:]:
        from bias_core.app.cli import app
        from bias_core.installed import COMMAND

        app(prog_name=COMMAND)
    else:
        from bias_core.app import start

        start()


if __name__ == "__main__":
    main()
