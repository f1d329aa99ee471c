"""What a notebook shows of an answer: tables, stacks, flame graphs and charts as HTML, without a library."""

import html

MOST_ROWS = 100  # of a table that are shown
PHASES = (("data_wait", "#d62728"), ("forward", "#1f77b4"), ("backward", "#2ca02c"), ("optimizer", "#9467bd"))
OTHER = "#b0b0b0"


def rows_html(rows):
    """A list of rows as a table; long ones are cut, and say so."""
    head = "".join("<th>%s</th>" % html.escape(name) for name in rows.columns)
    lines = []
    for row in rows[:MOST_ROWS]:
        cells = []
        for value in row:
            align = ' style="text-align:right"' if isinstance(value, (int, float)) else ""
            cells.append("<td%s>%s</td>" % (align, html.escape("NULL" if value is None else str(value))))
        lines.append("<tr>%s</tr>" % "".join(cells))
    more = "" if len(rows) <= MOST_ROWS else "<p>%d of %d rows</p>" % (MOST_ROWS, len(rows))
    return "<table><thead><tr>%s</tr></thead><tbody>%s</tbody></table>%s" % (head, "".join(lines), more)


class Backtrace(object):
    """The stacks of a process: ``threads`` is a list of dicts; shown as text."""

    def __init__(self, text, picture):
        self.text = text
        self.threads = picture["threads"]

    def __repr__(self):
        return self.text

    def _repr_html_(self):
        return "<pre>%s</pre>" % html.escape(self.text)


class FlameGraph(object):
    """A flame graph: shown in the notebook; ``html`` is the whole page, ``save(path)`` writes it."""

    HEIGHT = 480

    def __init__(self, page, title):
        self.html = page
        self.title = title

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)
        return path

    def __repr__(self):
        return "<flame graph of %s, %d bytes of HTML; save(path) writes it>" % (self.title, len(self.html))

    def _repr_html_(self):
        # A frame of its own: its style and its script are not the notebook's.
        form = (
            '<iframe title="%s" sandbox="allow-scripts" style="width:100%%;height:%dpx;border:0" srcdoc="%s">'
        )
        page = html.escape(self.html)
        return (form + "</iframe>") % (html.escape("Flame graph of " + self.title), self.HEIGHT, page)


class StepChart(object):
    """How long training steps took, and in which phase: bars, drawn as SVG. ``rows`` are the numbers."""

    WIDTH, HEIGHT, LEFT = 760, 180, 56

    def __init__(self, rows):
        self.rows = rows

    def __repr__(self):
        return repr(self.rows)

    def _repr_html_(self):
        steps = self.rows.to_dicts()
        if not steps:
            return (
                "<p>no step is recorded: <code>connect(pid).eval</code> or <code>probing -t PID config "
                "probing.torch.profiling=on</code> turns tracing on</p>"
            )
        longest = max(step["duration"] or 0 for step in steps) or 1.0
        width = float(self.WIDTH - self.LEFT) / len(steps)
        bars = []
        for i, step in enumerate(steps):
            bars.append(
                "<g><title>%s</title>%s</g>"
                % (html.escape(self._says(step)), self._bar(step, i, width, longest))
            )
        legend = " ".join(
            '<span style="color:%s">&#9632;</span> %s' % (colour, name)
            for name, colour in (*PHASES, ("other", OTHER))
        )
        scale = '<text x="0" y="12">%s</text><text x="0" y="%d">0</text>' % (_seconds(longest), self.HEIGHT)
        first, last = steps[0]["step"], steps[-1]["step"]
        return (
            '<figure style="margin:0"><svg viewBox="0 0 %d %d" width="100%%" role="img" font-size="12"'
            ' fill="currentColor" aria-label="Seconds of each training step">%s%s</svg>'
            "<figcaption>steps %s to %s: %s</figcaption></figure>"
        ) % (self.WIDTH, self.HEIGHT + 4, scale, "".join(bars), first, last, legend)

    def _bar(self, step, i, width, longest):
        parts, top = [], float(self.HEIGHT)
        known = [(name, colour, step[name] or 0.0) for name, colour in PHASES]
        rest = max(0.0, (step["duration"] or 0.0) - sum(seconds for _, _, seconds in known))
        for _, colour, seconds in [*known, ("other", OTHER, rest)]:
            height = self.HEIGHT * seconds / longest
            if height <= 0:
                continue
            top -= height
            parts.append(
                '<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="%s"/>'
                % (self.LEFT + i * width, top, max(width - 0.5, 0.5), height, colour)
            )
        return "".join(parts)

    def _says(self, step):
        phases = ", ".join("%s %s" % (name, _seconds(step[name] or 0.0)) for name, _ in PHASES)
        return "step %s: %s (%s)" % (step["step"], _seconds(step["duration"] or 0.0), phases)


def _seconds(seconds):
    if seconds >= 1:
        return "%.2f s" % seconds
    return "%.1f ms" % (1e3 * seconds)
