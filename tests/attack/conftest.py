from tests.ui.served import fakes, served

__all__ = ["fakes", "served"]
