"""Fixtures. A test asks for `host` (and starts what it likes), or for `client`, a legacy
client of a fresh server, or for `box`, a client with a box that is selected, or for `ssh`, a
client whose active box is an account on an SSH server of the module's `world`, or for `engine`,
a container engine of the session's own, or for `place`, one like `box` in each kind of sandbox
(places.py). After each test its boxes are deleted and
nothing of them may be left."""
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import dockerd  # noqa: E402
import openapi  # noqa: E402
import opensandbox_server  # noqa: E402
import schema  # noqa: E402
import ssh_servers  # noqa: E402
from host import IS_ROOT, TIERS, Host, Install, Tier, use_own_etc  # noqa: E402
from places import EVERY_TIER, PLACES, SUITE_ONLY  # noqa: E402

collect_ignore_glob = ["projects/*"]  # what run_tests is tried on

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MUST_RUN = os.environ.get("ANYBOX_MUST_RUN", "").split(",")


def pytest_addoption(parser):
    parser.addoption("--tier", choices=("root", "subuid", "plain", "self"),
                     help="run every test as this kind of user only")
    parser.addoption("--long", action="store_true", help="also run tests that take minutes")
    parser.addoption("--alone", choices=("no", "only"),
                     help="leave out the tests that need the machine for themselves, or run only these")


def pytest_generate_tests(metafunc):
    chosen = metafunc.config.getoption("--tier")
    if "place" in metafunc.fixturenames:
        later = set(getattr(metafunc.module, "LONG_PLACES", ()))
        later |= SUITE_ONLY if metafunc.module.__name__ != "test_behaviours" else set()
        pairs = [(p, t) for p in PLACES for t in (TIERS if p in EVERY_TIER else TIERS[:1])
                 if chosen in (None, t) and (metafunc.config.getoption("--long") or p not in later)]
        metafunc.parametrize(("place", "tier"), pairs, indirect=True)
    elif "tier" in metafunc.fixturenames:
        everyone = metafunc.definition.get_closest_marker("every_tier")
        only = metafunc.definition.get_closest_marker("only_tiers")
        tiers = [chosen] if chosen else TIERS if everyone else TIERS[:1]
        metafunc.parametrize("tier", [t for t in tiers if not only or t in only.args], indirect=True)


def pytest_collection_modifyitems(config, items):
    if IS_ROOT and any({"world", "place", "spot"} & set(getattr(item, "fixturenames", ())) for item in items):
        use_own_etc()  # now, before anything was started
    alone = config.getoption("--alone")
    if alone:
        groups = {"only": [], "no": []}
        for item in items:
            groups["only" if item.get_closest_marker("alone") else "no"].append(item)
        items[:] = groups.pop(alone)
        config.hook.pytest_deselected(items=sum(groups.values(), []))
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: make check, or --long"))


def pytest_report_header():
    return [f"as: {', '.join(TIERS)}", f"schemas: {schema.FOLDER if schema.available() else schema.why_not()}",
            f"OpenSandbox's specification: {openapi.why_not() or openapi.FOLDER}"]


@pytest.fixture(scope="session")
def session_folder():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="abx-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def install(session_folder):
    build = pathlib.Path(os.environ.get("ANYBOX_BUILD") or ROOT / "build").resolve()
    if not (build / "anybox").exists():
        pytest.exit(f"{build}/anybox is not built: run make", 2)
    return Install(build, session_folder)


@pytest.fixture(scope="session")
def tiers_made():
    return {}


@pytest.fixture
def tier(request, session_folder, tiers_made):
    name = request.param
    if name not in tiers_made:
        made = Tier(name, session_folder)
        tiers_made[name] = (made, made.refused())
    made, refused = tiers_made[name]
    if refused:
        (pytest.fail if "local" in MUST_RUN else pytest.skip)(f"as {name}: {refused}")
    return made


@pytest.fixture
def host(install, tier, session_folder, request):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="t", dir=session_folder))
    folder.chmod(0o755)
    # Modules that count processes say POOL = 0: prepared boxes would be counted, too.
    world = Host(install, tier, folder, getattr(request.module, "POOL", None))
    yield world
    if world.stderr():
        print("stderr of the servers:\n" + world.stderr()[-5000:])
    answers = [a for c in world.clients for a in c.answers]
    notifications = [(c.version, n) for c in world.clients for n in c.notifications]
    questions = [(c.version, q) for c in world.clients for q in c.questions]
    world.finish()
    shutil.rmtree(folder, ignore_errors=True)
    schema.check(answers, notifications, questions)


@pytest.fixture
def client(host):
    return host.server()


@pytest.fixture
def box(client):
    """A client whose selected box is fresh; box.box_id names it."""
    made = client.tool("create_sandbox", name="work")
    client.box_id = made["sandbox_id"]
    return client


@pytest.fixture
def place(host, request):
    name = request.param
    kind = name.partition("-")[0]
    fixture = {"ssh": "world", "docker": "engine", "opensandbox": "platform"}.get(kind)
    needs = request.getfixturevalue(fixture) if fixture else None
    with PLACES[name](host, needs) as client:
        yield client


@pytest.fixture(scope="session")
def engine(session_folder, install):
    """A dockerd of our own, with an image (dockerd.IMAGE) of the host's programs."""
    why = dockerd.why_not()
    if why:
        (pytest.fail if "docker" in MUST_RUN else pytest.skip)(why)
    made = dockerd.Engine(session_folder / "engine")
    try:
        try:
            made.start()
        except RuntimeError as refused:
            (pytest.fail if "docker" in MUST_RUN else pytest.skip)(str(refused))
        made.import_image(dockerd.IMAGE, dockerd.cached_archive(os.environ.get("ANYBOX_BUILD") or ROOT / "build"))
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def platforms():
    made = opensandbox_server.Platform()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def platform(platforms):
    """The stand-in of an OpenSandbox platform, without quirks; no sandbox outlives its test."""
    platforms.quirks = opensandbox_server.Quirks()
    yield platforms
    platforms.quirks = opensandbox_server.Quirks()
    for sandbox in list(platforms.sandboxes.values()):
        platforms.remove(sandbox)
    exchanges, platforms.exchanges = list(platforms.exchanges.values()), {}
    if not openapi.why_not():
        assert openapi.problems(exchanges) == [], "the stand-in, or we, do not as the platform's specification says"


@pytest.fixture(scope="module")
def world(request):
    """SSH servers and a user to log in as. Modules that do without an account of their own
    say ANY_USER = True, and run as anybody."""
    why = ssh_servers.why_not(account=not getattr(request.module, "ANY_USER", False))
    if why:
        (pytest.fail if "ssh" in MUST_RUN else pytest.skip)(why)
    made = ssh_servers.World()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def ssh(host, world):
    return host.server(env=ssh_servers.hosts(world.entry(world.server)))
