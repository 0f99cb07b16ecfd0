"""The fixtures of the end-to-end tests, and a browser."""
import importlib.util
import pathlib
import sys

import pytest

E2E = pathlib.Path(__file__).resolve().parent.parent / "e2e"
sys.path.insert(0, str(E2E))
spec = importlib.util.spec_from_file_location("e2e_conftest", E2E / "conftest.py")
sys.modules["e2e_conftest"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["e2e_conftest"])

from chromium import Chromium  # noqa: E402
from e2e_conftest import *  # noqa: E402, F403
from http_server import HttpServer  # noqa: E402


@pytest.fixture
def web(host):
    server = HttpServer(host)
    yield server
    try:
        server.close()
    finally:
        server.kill()


@pytest.fixture(scope="session")
def browser(session_folder):
    chromium = Chromium(session_folder / "profile")
    yield chromium
    chromium.close()


@pytest.fixture
def page(browser):
    tab = browser.tab()
    yield tab
    tab.close()
