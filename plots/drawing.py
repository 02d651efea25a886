"""Draws the catalogue's pictures with matplotlib, as SVG: the same data, the same bytes."""

import io
import logging
import math
import os
import re
import textwrap

import results_reader as reader
from catalogue import (GREY, accesses_in_words, bars_of, caption, crossovers_of, end_of_l2,
                       filled_in, l2_bytes, lines_of, roof_of, sectors_of, shape, title_of)

INK, FAINT, GRID, CARD, BORDER = "#222222", "#666666", "#E6E6E6", "#FFFFFF", "#DDDDDD"
L2, L2_TEXT, ALARM = "#EAF1F6", "#4F6B7C", "#A63F00"

# In points. The axes of all curves are equally high, and the card grows with its caption.
WIDTH, MARGIN, LEFT, RIGHT, HEIGHT = 560, 16, {"bytes": 62, "flop": 74}, 148, 250
TEXT, SMALL, LINE = 10.5, 9.5, 13.5


# ---- how numbers are written --------------------------------------------------------------------

def three_digits(value):
    """12.3, and of what is far below 1 the first digit: 0.0008."""
    decimals = 2 - int(math.log10(max(value, 1)))
    if 0 < value < 0.01:
        decimals = -math.floor(math.log10(value))
    return f"{value:.{max(0, decimals)}f}"


def short(value):
    return f"{value:.3g}"


def with_prefix(value, unit, prefixes, written):
    """0.000001 s -> 1 µs."""
    scale, prefix = max((pair for pair in prefixes if pair[0] <= value * 1.0001),
                        default=prefixes[0])
    return f"{written(value / scale)} {prefix}{unit}"


def write_time(seconds, written):
    return with_prefix(seconds, "s", ((1e-9, "n"), (1e-6, "µ"), (1e-3, "m"), (1, "")), written)


def write_rate(rate, of, written):
    """A number of bytes, or of FLOP, per second."""
    return with_prefix(rate, {"bytes": "B/s", "flop": "FLOP/s"}[of],
                       ((1, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")), written)


def write_share(share, written):
    return f"{written(100 * share)} %"


def write(picture, value, written):
    """A value on the picture's y axis, with its unit."""
    if picture.y == "time":
        return write_time(value, written)
    if picture.y == "share":
        return write_share(value, written)
    return write_rate(value, picture.of, written)


def meaning(picture, more=""):
    """What the y axis shows."""
    rate = {"bytes": "bytes per second", "flop": "FLOP per second"}[picture.of]
    if picture.y == "time":
        return f"time{more}; lower is better"
    if picture.y == "share":
        whose = "the ceiling" if picture.ceiling.label == "ceiling" else picture.ceiling.label
        rate = f"share of {whose}'s {rate}"
    return f"{rate}{more}; higher is better"


def axis_format(picture):
    return lambda value, _: write(picture, value, short) if value > 0 else "0"


def width_of(text, size=TEXT):
    """About how wide a text is: the same with every font, so that places do not depend on it."""
    return 0.55 * size * len(text)


# ---- the card that a picture stands on ----------------------------------------------------------

class NoMatplotlib(Exception):
    pass


def import_matplotlib():
    """matplotlib as it comes, whatever a reader's own settings say, and without a window."""
    os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib
        import matplotlib.backends.backend_svg
        import matplotlib.figure
    except ImportError as error:
        raise NoMatplotlib(f"no picture is drawn without matplotlib ({error}); this installs it: "
                           "python3 -m pip install -r requirements.txt") from error
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "plots", "font.family": ["DejaVu Sans"],
        "figure.dpi": 72, "font.size": TEXT, "text.color": INK, "axes.labelcolor": FAINT,
        "xtick.color": FAINT, "ytick.color": FAINT, "axes.edgecolor": "#BBBBBB",
        "xtick.labelsize": SMALL, "ytick.labelsize": SMALL, "axes.labelsize": SMALL,
        "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    })
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    return matplotlib


def darker(colour):
    """The colour, dark enough for text on the card."""
    return "#" + "".join(f"{int(int(colour[i:i + 2], 16) * 0.7):02X}" for i in (1, 3, 5))


class Card:
    """A white card, which reads on a dark page too, with its texts and one pair of axes."""

    def __init__(self, matplotlib, title, subtitle, over_axes, sentences, out_of_date, height,
                 left, right, below_axes):
        lines = [line for sentence in sentences for line in textwrap.wrap(sentence, 96)]
        band = 24 if out_of_date else 0
        above = band + (76 if over_axes else 58)
        below = below_axes + (LINE * len(lines) + 8 if lines else 0)
        self.total = above + height + below
        self.figure = matplotlib.figure.Figure(
            (WIDTH / 72, self.total / 72), facecolor=CARD, edgecolor=BORDER, linewidth=1)
        matplotlib.backends.backend_svg.FigureCanvasSVG(self.figure)
        self.axes = self.figure.add_axes((left / WIDTH, below / self.total,
                                          (WIDTH - left - right) / WIDTH, height / self.total))
        self.axes.tick_params(which="both", length=0)
        self.axes.set_facecolor("none")
        if out_of_date:
            self.figure.add_artist(matplotlib.patches.Rectangle(
                (0, 1 - band / self.total), 1, band / self.total, facecolor=ALARM))
            self.say(16.5, out_of_date, color=CARD, weight="bold", size=SMALL)
        self.say(band + 26, title, size=13, weight="bold")
        self.say(band + 43, subtitle, size=SMALL, color=FAINT)
        self.say(above - 9, over_axes, size=SMALL, color=FAINT)
        for i, line in enumerate(reversed(lines)):
            self.say(self.total - 14 - LINE * i, line, size=SMALL)

    def say(self, y, text, **how):
        """A line of text at the left margin, y points below the top."""
        self.figure.text(MARGIN / WIDTH, 1 - y / self.total, text, va="baseline", **how)

    def svg(self, title):
        out = io.StringIO()
        self.figure.savefig(out, format="svg", facecolor=CARD, edgecolor=BORDER, metadata={
            "Title": title, "Date": None, "Creator": None, "Format": None, "Type": None})
        # matplotlib measures text in its own font, the widest of these. A reader gets the first
        # that their machine has.
        fonts = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
        text = out.getvalue().replace("'DejaVu Sans'", fonts)
        return re.sub(r" +$", "", text, flags=re.MULTILINE)


# ---- curves -------------------------------------------------------------------------------------

def draw_curves(matplotlib, axes, picture, results):
    lines = lines_of(picture, results)
    every = [point for _, points in lines for point in points]
    ticks = {point.x: picture.x.tick(point.row) for point in every}
    axes.set_xscale("log", base=2)
    axes.set_xlim(with_room(min(ticks), max(ticks), 0.07))
    if picture.y == "roofline":
        draw_roof(axes, picture, *roof_of(picture, results), every)
    elif picture.y == "share":
        axes.set_ylim(0, max(1.1, 1.04 * max(point.high for point in every)))
        axes.axhline(1, color=GREY, linewidth=1.2, dashes=(5, 3))
    else:
        low, high = min(point.low for point in every), max(point.high for point in every)
        axes.set_yscale("log")
        axes.set_ylim(with_room(low, high, 0.05))
        axes.yaxis.set_major_locator(
            matplotlib.ticker.LogLocator(subs=(1,) if high > 100 * low else (1, 2, 5)))
    shown = ticks_with_room(axes, ticks)
    axes.set_xticks(shown, [ticks[x] for x in shown])
    axes.set_xlabel(picture.x.label)
    axes.yaxis.set_major_formatter(axis_format(picture))
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.grid(axis="y", color=GRID, linewidth=0.8)

    for line, points in lines:
        x, y = [point.x for point in points], [point.y for point in points]
        style = ({"dashes": (5, 3), "linewidth": 1.6, "zorder": 3} if line.dashed else
                 {"linewidth": 2})
        axes.plot(x, y, color=line.colour, marker=line.marker or None,
                  markersize=8 if line.marker in "^vX" else 6, markeredgecolor=CARD,
                  markeredgewidth=0.7, **style)
        axes.vlines(x, [point.low for point in points], [point.high for point in points],
                    color=line.colour, linewidth=1.4)
    for cpu, _, crossover in crossovers_of(picture, results):
        if crossover.wins == "from":
            axes.plot([crossover.size], [height_at(crossover.size, dict(lines)[cpu])], marker="o",
                      markersize=12, markerfacecolor="none", markeredgecolor=INK,
                      markeredgewidth=1.1)
    edge = end_of_l2(picture, results)
    if edge == math.inf:
        edge = None             # the caption says so
    if edge:
        axes.axvspan(axes.get_xlim()[0], edge, facecolor=L2, zorder=0)
    label_curves(axes, lines, edge, results.context)


def draw_roof(axes, picture, slope, flat, points):
    """What the memory and the arithmetic units allow, from well before the edge between the two."""
    edge = flat / slope
    left = min(edge / 16, min(point.x for point in points) / 4)
    right = 1.4 * max(point.x for point in points)
    axes.set_xlim(left, right)
    axes.set_yscale("log")
    axes.set_ylim(with_room(min([slope * left] + [point.low for point in points]), flat, 0.08))
    axes.plot([left, edge, right], [slope * left, flat, flat], color=GREY, dashes=(5, 3),
              linewidth=1.6)
    for text, at, beside in (
            (f"{write_rate(slope, 'bytes', three_digits)} from memory", (left, slope * left), (12, -6)),
            (f"{write_rate(flat, 'flop', three_digits)}, {picture.ceiling.label}", (edge, flat), (6, 5))):
        axes.annotate(text, at, xytext=beside, textcoords="offset points", color=FAINT, size=SMALL)


def with_room(low, high, part):
    """The ends of a logarithmic axis on which everything lies between low and high."""
    room = max(1.1, (high / low) ** part)
    return low / room, high * room


def ticks_with_room(axes, labels):
    """From the largest down, the places whose labels do not touch."""
    shown, free = [], math.inf
    for x in sorted(labels, reverse=True):
        middle = axes.transData.transform((x, 1))[0]
        half = width_of(labels[x], SMALL) / 2
        if middle + half < free:
            shown.append(x)
            free = middle - half - 4
    return shown


def height_at(x, points):
    """Where a line stands at x between two of its points, on logarithmic axes."""
    after = next(i for i, point in enumerate(points) if i > 0 and point.x >= x)
    a, b = points[after - 1], points[after]
    return a.y * (b.y / a.y) ** (math.log(x / a.x) / math.log(b.x / a.x))


def label_curves(axes, lines, edge_of_l2, context):
    """Labels at the ends of the lines: beside the axes, or inside for a line that ends early."""
    box = axes.get_window_extent()

    def place(x, y):
        x, y = axes.transData.transform((x, y))
        return x - box.x0, y - box.y0

    def say(text, at, colour, size=TEXT):
        axes.annotate(text, at, xycoords="axes points", va="center", color=colour, size=size)

    paths = [[place(point.x, point.y) for point in points] for _, points in lines]
    labels = [filled_in(line.label, context) for line, _ in lines]
    furthest = max(path[-1][0] for path in paths)
    beside = [i for i, path in enumerate(paths) if path[-1][0] == furthest]
    heights = spread([paths[i][-1][1] for i in beside], LINE, 4, box.height - 2)
    for i, height in zip(beside, heights):
        colour = lines[i][0].colour
        axes.annotate("", paths[i][-1], xycoords="axes points", textcoords="axes points",
                      xytext=(box.width + 8, height),
                      arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8,
                                  "shrinkA": 0, "shrinkB": 4})
        say(labels[i], (box.width + 10, height), darker(colour))
    taken = list(paths)         # a label, too, is a line that others keep clear of

    def say_inside(text, places, colour, size=TEXT):
        width = width_of(text, size)
        x, y = free_place(places, width, taken, box.width)
        say(text, (x, y), colour, size)
        taken.append([(x, y), (x + width, y)])

    for i in (i for i in range(len(lines)) if i not in beside):
        x, y = paths[i][-1]
        width = width_of(labels[i])
        say_inside(labels[i], [(x + 9, y), (x + 7, y - 11), (x + 7, y + 11),
                               (x - width - 4, y + 14), (x - width - 4, y - 14)],
                   darker(lines[i][0].colour))
    if edge_of_l2:
        label = f"fits in the L2 cache, {l2_bytes(context) / 2**20:.0f} MiB"
        x = max(2, place(edge_of_l2, axes.get_ylim()[1])[0] - width_of(label, SMALL - 1) - 3)
        say_inside(label, [(x, y) for y in range(8, int(box.height) - 6, 12)], L2_TEXT, SMALL - 1)


def spread(wanted, gap, low, high):
    """Places near the wanted ones, at least `gap` apart, between low and high."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    places = {}
    floor, top = low, high
    for i in order:
        places[i] = max(wanted[i], floor)
        floor = places[i] + gap
    for i in reversed(order):
        places[i] = min(places[i], top)
        top = places[i] - gap
    return [places[i] for i in range(len(wanted))]


def free_place(places, width, paths, limit):
    """The first of the places for a text of that width at which it meets the fewest lines."""
    def crossed(place):
        left, right, low, high = place[0] - 3, place[0] + width, place[1] - 7, place[1] + 7
        hits = 100 if right > limit else 0
        for path in paths:
            for (x0, y0), (x1, y1) in zip(path, path[1:]):
                for k in range(41):
                    x, y = x0 + (x1 - x0) * k / 40, y0 + (y1 - y0) * k / 40
                    hits += left < x < right and low < y < high
        return hits

    return min(places, key=crossed)


# ---- bars ---------------------------------------------------------------------------------------

BAR, GROUP_HEAD = 22, 24


def height_of_bars(picture, results):
    head = GROUP_HEAD if picture.every_size else 0
    return sum(head + BAR * len(group) for _, group in bars_of(picture, results))


def draw_bars(matplotlib, axes, picture, results):
    places, labels = [], []
    y = 0
    for size, group in bars_of(picture, results):
        of_many = len(group[0][1].row.sizes) > 1
        at = shape(group[0][1].row) if of_many else f"{reader.exactly(size)} elements"
        if picture.every_size:
            axes.annotate(at, (0, y + GROUP_HEAD - 6), xytext=(4, 0),
                          textcoords="offset points", size=SMALL, color=FAINT)
            y += GROUP_HEAD
        for line, point in group:
            middle = y + BAR / 2
            axes.barh(middle, point.y, height=BAR - 6, color=line.colour)
            axes.hlines(middle, point.low, point.high, color=INK, linewidth=1.4)
            axes.annotate(write(picture, point.y, three_digits), (point.high, middle),
                          xytext=(6, 0), textcoords="offset points", va="center",
                          bbox={"facecolor": CARD, "edgecolor": "none", "pad": 0.5})
            places.append(middle)
            labels.append(filled_in(line.label, results.context))
            y += BAR
    axes.set_ylim(y, 0)
    axes.set_yticks(places, labels)
    axes.tick_params(axis="y", labelsize=TEXT, labelcolor=INK)
    if picture.y == "share":
        axes.axvline(1, color=GREY, linewidth=1.2, dashes=(5, 3), zorder=0.5)
    axes.set_xlim(0, axes.dataLim.x1)
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(axis_format(picture))
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.spines["bottom"].set_visible(False)
    has_size = not picture.every_size and point.row.sizes
    axes.set_xlabel(meaning(picture, f", at {at}" if has_size else ""))


# ---- the sectors that a warp touches ------------------------------------------------------------

CELL_WIDTH, CELL_HEIGHT, SECTOR_STEP, ROW_STEP, ROW, HEAD = 7.2, 13, 66, 32, 8, 24


def height_of_accesses(lines):
    return sum(HEAD + ROW_STEP * math.ceil(len(sectors_of(accesses)) / ROW)
               for _, accesses in lines)


def draw_accesses(matplotlib, axes, lines):
    """Eight sectors a row: under each the number of its first byte, and who wants it."""
    axes.axis("off")
    axes.set_xlim(0, WIDTH - 2 * MARGIN)
    axes.set_ylim(height_of_accesses(lines), 0)
    y = 0
    for line, accesses in lines:
        axes.text(0, y + 10, line.label, weight="bold", color=darker(line.colour))
        axes.text(142, y + 10, accesses_in_words(accesses), size=SMALL)
        sectors = sectors_of(accesses)
        used, unused = [], []
        for i, (sector, lanes) in enumerate(sectors.items()):
            x, top = i % ROW * SECTOR_STEP, y + HEAD - 6 + i // ROW * ROW_STEP
            for cell in range(reader.SECTOR // 4):
                (used if cell in lanes else unused).append((x + cell * CELL_WIDTH, top))
            first, last = min(lanes.values()), max(lanes.values())
            who = f"lane {first}" if first == last else f"lanes {first}–{last}"
            under = top + CELL_HEIGHT + 9.5
            axes.text(x, under, str(sector * reader.SECTOR), size=7.5, color=FAINT)
            axes.text(x + 8 * CELL_WIDTH, under, who, size=7.5, ha="right")
        draw_cells(matplotlib, axes, unused, "#D9D9D9")
        draw_cells(matplotlib, axes, used, line.colour)
        y += HEAD + ROW_STEP * math.ceil(len(sectors) / ROW)


def draw_cells(matplotlib, axes, corners, colour):
    """All cells of one colour, as one path."""
    if corners:
        outline = [(0, 0), (CELL_WIDTH, 0), (CELL_WIDTH, CELL_HEIGHT), (0, CELL_HEIGHT), (0, 0)]
        cells = [matplotlib.path.Path([(x + dx, y + dy) for dx, dy in outline], closed=True)
                 for x, y in corners]
        axes.add_patch(matplotlib.patches.PathPatch(
            matplotlib.path.Path.make_compound_path(*cells), facecolor=colour, edgecolor=CARD,
            linewidth=0.6, clip_on=False))


# ---- a whole picture ----------------------------------------------------------------------------

def subtitle_of(results):
    machine = results.context.get("gpu" if results.has_gpu else "cpu") or "unnamed machine"
    repetitions = max(row.repetitions for row in results.rows)
    return f"{machine} · median of {repetitions} repetitions, with the fastest and the slowest"


def svg_of(matplotlib, chapter, picture, data, current):
    """The picture, as the text of an SVG file."""
    title = title_of(picture, data)
    out_of_date = "" if current else (
        f"Out of date: {chapter[3:]}.cu has changed since this was measured.")
    lines = lines_of(picture, data)
    if picture.y == "accesses":
        card = Card(matplotlib, title, "A box is a sector of 32 bytes, eight floats. Below it: "
                    "its first byte, and the lanes that want a float of it.", "", [], out_of_date,
                    height_of_accesses(lines), MARGIN, MARGIN, 8)
        draw_accesses(matplotlib, card.axes, lines)
    elif picture.x:
        over_axes = meaning(picture, "" if picture.y == "share" else ", logarithmic")
        card = Card(matplotlib, title, subtitle_of(data), over_axes, caption(picture, data),
                    out_of_date, HEIGHT, LEFT[picture.of], RIGHT, 44)
        draw_curves(matplotlib, card.axes, picture, data)
    else:
        card = Card(matplotlib, title, subtitle_of(data), "", caption(picture, data), out_of_date,
                    height_of_bars(picture, data), 150, 70, 44)
        draw_bars(matplotlib, card.axes, picture, data)
    return card.svg(title)
