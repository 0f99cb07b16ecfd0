# show.py - how values, figures and exceptions are shown. `library`, `work`, `sources` and VENDOR are
# in its namespace.
import os
import sys

IMAGES_MAX = 20


def cut(text, most):
    """The beginning and the end, with a word about what is missing."""
    if len(text) <= most:
        return text
    return "%s\n... %d characters are left out ...\n%s" % (
        text[:most // 2], len(text) - most, text[-(most - most // 2):])


def is_a(value, module, *names):
    """Is it an instance of a class of a module, which need not be loaded?"""
    loaded = sys.modules.get(module)
    kinds = tuple(k for k in (getattr(loaded, n, None) for n in names) if isinstance(k, type))
    return bool(kinds) and isinstance(value, kinds)


def text_of(value, most):
    if isinstance(value, (str, bytes, bytearray)) and len(value) > 2 * most:
        # What nobody will see need not be made.
        whole = len(value)
        value = value[:most] + value[-most:]
        return cut(repr(value), most) + "\n(of %d in all)" % whole
    if is_a(value, "pandas", "DataFrame"):
        text = value.to_string(max_rows=20, max_cols=12, max_colwidth=60, show_dimensions=True)
    elif is_a(value, "pandas", "Series"):
        text = value.to_string(max_rows=20, length=True, dtype=True, name=True)
    else:
        text = repr(value)
    return cut(text, most)


def png(save, most):
    """An image that is small enough: save(scale) gives its bytes."""
    for scale in 1, 0.5, 0.25, 0.125:
        data = save(scale)
        if len(data) <= most:
            return data
    return None


def figure_png(figure, most):
    def save(scale):
        to = library("io").BytesIO()
        figure.savefig(to, format="png", dpi=max(10, figure.dpi * scale))
        return to.getvalue()

    return png(save, most)


def picture_png(picture, most):
    def save(scale):
        to, small = library("io").BytesIO(), picture
        if scale < 1:
            small = small.resize([max(1, int(n * scale)) for n in small.size])
        if small.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"):
            small = small.convert("RGB")
        small.save(to, "PNG")
        return to.getvalue()

    return png(save, most)


def pictures_of(value):
    """What can be shown as images, of the value of the last line."""
    several = value if isinstance(value, (list, tuple)) and len(value) <= IMAGES_MAX else [value]
    return several if several and all(is_a(v, "PIL.Image", "Image") for v in several) else []


def images(value, most):
    """(bytes of each as PNG, how many were left out). All figures are closed."""
    made, left_out = [], 0
    pyplot = sys.modules.get("matplotlib.pyplot")
    makers = [(picture_png, p) for p in pictures_of(value)]
    if hasattr(pyplot, "get_fignums"):
        makers += [(figure_png, pyplot.figure(n)) for n in pyplot.get_fignums()]
    if is_a(value, "matplotlib.figure", "Figure") and all(value is not f for _, f in makers):
        makers.append((figure_png, value))
    try:
        for make, what in makers:
            room = most - sum(map(len, made))
            data = make(what, room // 2 if not made and len(makers) > 1 else room)
            if data is None or len(made) >= IMAGES_MAX:
                left_out += 1
            else:
                made.append(data)
    finally:
        if hasattr(pyplot, "close"):
            pyplot.close("all")
    return made, left_out


def show(value, order):
    out = []
    made, left_out = images(value, int(order.get(b"image_bytes", 400000)))
    if value is not None and not pictures_of(value):
        text = text_of(value, int(order.get(b"max_chars", 20000)))
        out.append((b"V", text.encode("utf-8", "backslashreplace")))
    out += [(b"I", b"image/png\n" + data) for data in made]
    if left_out:
        out.append((b"N", b"%d images did not fit into the answer and were left out: save them as files"
                    % left_out))
    return out


def is_users(name):
    return name in sources or name.startswith(work + "/") and "/site-packages/" not in name


def cut_stack(told):
    """Without our own frames; of libraries only the last, where it went wrong."""
    stack = [f for f in told.stack if f.filename != VENDOR]
    told.stack[:] = [f for i, f in enumerate(stack) if is_users(f.filename) or i == len(stack) - 1]


def all_told(told, seen):
    if told is None or id(told) in seen:
        return
    seen.add(id(told))
    cut_stack(told)
    for other in (told.__cause__, told.__context__, *(getattr(told, "exceptions", None) or ())):
        all_told(other, seen)


def trace(problem):
    cache = library("linecache").cache
    for name, text in sources.items():
        lines = text.decode("utf-8", "replace").splitlines(True)
        cache[name] = len(text), None, lines, name
    told = library("traceback").TracebackException.from_exception(problem)
    all_told(told, set())
    if isinstance(problem, KeyboardInterrupt):
        return cut("".join(told.format()), 100000)
    return cut("".join(told.format(chain=True)), 100000)
