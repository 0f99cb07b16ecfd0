# boot.py - how the driver begins. Most of the time of a first call would go into compiling it, so it
# brings along what the build's Python made of its parts; any other Python compiles their sources. KEEP,
# WORK, SHOW and CALL are these sources, MADE_FOR says which Python has made MADE (scripts/embed_py.py).
import sys

# With -c the working folder comes first: a file of the user's would take a module's place.
if sys.path and sys.path[0] == "":
    del sys.path[0]


def ready():
    """The parts as code, by their names, or nothing."""
    magic = getattr(sys.modules.get("_frozen_importlib_external"), "MAGIC_NUMBER", b"")
    if MADE_FOR != "%s %s" % (sys.implementation.cache_tag, magic.hex()):
        return {}
    try:
        import binascii
        import marshal
        import zlib
        return marshal.loads(zlib.decompress(binascii.a2b_base64(MADE)))
    except Exception:  # a Python without zlib, or one that only seems to be the same
        return {}


READY = ready()


def code_of(name, source):
    return READY.get(name) or compile(source, "<anybox>", "exec")


exec(code_of("call", CALL), globals())
