"""The app, as a Space and `make run` start it."""

from bias_core.app import start

if __name__ == "__main__":
    start()
