"""Numbers, counts and lists as text for people: digits that the interval supports, "," between thousands, a true minus.

A value and the ends of its interval have the decimals that show half the interval's width in two digits:
42 [24, 60], 0.42 [0.24, 0.60], 0.4213 [0.4168, 0.4258]. Without an interval, half the width is taken as s/√n,
with s the power of ten at or above the value: −51.664 from three pictures is −52, from a thousand −51.7.
Files and links for programs (CSV, JSON, commands) have numbers as Python writes them.
"""

import math
import re
from collections.abc import Mapping, Sequence

NOT_KNOWN = "not known"
UNDEFINED = "undefined"
NO_INTERVAL = "no interval"
NO_TEST = "no test"
_USUAL_N = 1000  # three digits if n is unknown
_MOST_DECIMALS = 6
_EXACT_DECIMALS = 3  # a number with at most these digits stays as given: 33.33, 0.885
_ROUNDING = 1e-9
_SMALLEST_P = 0.001
_SPACE = "\N{NO-BREAK SPACE}"


def format_formula(tex: str, *, is_block: bool = False) -> str:
    """Return a formula in TeX as MathML, which browsers show without a script.

    >>> format_formula("k < n").partition("<mrow>")[2]
    '<mi>k</mi><mo>&lt;</mo><mi>n</mi></mrow></math>'
    """
    from html import unescape
    from xml.etree.ElementTree import tostring

    from latex2mathml.converter import convert_to_element  # it reads a table of symbols

    tex = re.sub(r"(?<!left)\\lvert", r"\\left\\lvert", tex)  # bars around a term, not between two
    tex = re.sub(r"(?<!right)\\rvert", r"\\right\\rvert", tex)
    root = convert_to_element(tex, display="block" if is_block else "inline")
    for part in root.iter():
        part.text = part.text and unescape(part.text)
        if part.tag == "mtext" and re.fullmatch(r"\w+", part.text or ""):
            part.tag = "mi"
        elif part.tag == "mi" and part.text in ("cos", "exp", "ln"):
            part.tag, part.attrib = "mo", {"lspace": "0.17em", "rspace": "0.1em"}
        elif part.text == "\N{REVERSE SOLIDUS OPERATOR}":
            part.tag, part.text = "mo", "\N{SET MINUS}"  # that fonts have
    return tostring(root, encoding="unicode")


def typeset(value: float, form: str = "g") -> str:
    """A number in Python's format ``form``, with a typographic minus sign.

    >>> typeset(-0.25), typeset(-1234.5, ",.0f"), typeset(0.1, "+.2f")
    ('−0.25', '−1,234', '+0.10')
    """
    return f"{value:{form}}".replace("-", "−")


def format_number(value: float | None, low: float = math.nan, high: float = math.nan, *, n: float | None = None) -> str:
    """A value with as many digits as its interval, else its n, supports.

    >>> format_number(-51.664, n=3), format_number(0.4213, 0.24, 0.6), format_number(math.nan)
    ('−52', '0.42', 'undefined')
    """
    if value is None:
        return NOT_KNOWN
    value, low, high = float(value), float(low), float(high)
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return _rounded(value, _decimals(_half_width(value, low, high, n)))


def rounded(value: float, low: float = math.nan, high: float = math.nan, *, n: float | None = None) -> float:
    """The number that :func:`format_number` writes, as a float; nan and infinity stay.

    >>> rounded(0.48371, 0.38, 0.58), rounded(-51.664, n=3)
    (0.48, -52.0)
    """
    return round(value, _decimals(_half_width(value, low, high, n))) + 0.0 if math.isfinite(value) else value


def format_interval(low: float, high: float, *, value: float = math.nan, n: float | None = None) -> str:
    """Both ends in brackets, or "no interval"; ``value`` and ``n`` set the digits if the ends coincide.

    >>> format_interval(0.2401, 0.6), format_interval(24, 60), format_interval(math.nan, 1)
    ('[0.24, 0.60]', '[24, 60]', 'no interval')
    """
    if math.isnan(low) or math.isnan(high):
        return NO_INTERVAL
    middle = value if math.isfinite(value) else next(filter(math.isfinite, (low, high)), 0.0)
    decimals = _decimals(_half_width(middle, low, high, n))
    ends = (_rounded(end, decimals) if math.isfinite(end) else format_number(end) for end in (low, high))
    return f"[{', '.join(ends)}]"


def format_estimate(value: float, low: float, high: float, *, n: float | None = None) -> str:
    """A value and its interval.

    >>> format_estimate(41.96, 24.1, 60.2), format_estimate(-51.664, math.nan, math.nan, n=3)
    ('42 [24, 60]', '−52, no interval')
    """
    text, interval = format_number(value, low, high, n=n), format_interval(low, high, value=value, n=n)
    if math.isnan(value):
        return text
    return f"{text}, {interval}" if interval == NO_INTERVAL else f"{text} {interval}"


def format_change(value: float, low: float = math.nan, high: float = math.nan, *, n: float | None = None) -> str:
    """A difference and its interval, each with a sign.

    >>> format_change(-8.29, -26.3, 9.54), format_change(0.4021, 0.281, 0.519), format_change(0.2)
    ('−8 [−26, +10]', '+0.40 [+0.28, +0.52]', '+0.200')
    """
    if math.isnan(value):
        return UNDEFINED
    decimals = _decimals(_half_width(value, low, high, n))
    signed = [typeset(round(number, decimals) + 0.0, f"+,.{decimals}f") for number in (value, low, high)]
    return signed[0] if math.isnan(low) or math.isnan(high) else f"{signed[0]} [{signed[1]}, {signed[2]}]"


def format_share(value: float, low: float = math.nan, high: float = math.nan, *, n: float | None = None) -> str:
    r"""A share in percent with its interval, with decimals if the interval supports them.

    >>> format_share(0.9333, 0.8407, 0.9738), format_share(0.4837, 0.4812, 0.4861), format_share(0.25, n=8)
    ('93\xa0% [84, 97]', '48.4\xa0% [48.1, 48.6]', '25\xa0%, no interval')
    """
    if math.isnan(value):
        return UNDEFINED
    value, low, high = 100 * value, 100 * low, 100 * high
    decimals = max(0, _decimals(_half_width(value, low, high, n)) - 1)
    text = f"{_rounded(value, decimals)}{_SPACE}%"
    if math.isnan(low) or math.isnan(high):
        return f"{text}, {NO_INTERVAL}"
    return f"{text} [{_rounded(low, decimals)}, {_rounded(high, decimals)}]"


def format_rank(value: float, low: float, high: float) -> str:
    """A rank, and the ranks that it has in resamples.

    >>> format_rank(1.0, 1.0, 2.0), format_rank(1.5, math.nan, math.nan), format_rank(math.nan, 1.0, 1.0)
    ('1 (1 to 2)', '1.5', 'undefined')
    """
    if math.isnan(value):
        return UNDEFINED
    return f"{value:g}" if math.isnan(low) else f"{value:g} ({low:g} to {high:g})"


def format_rate(rate: float | None, absent: str = UNDEFINED) -> str:
    r"""A rate without an interval, in whole percent.

    >>> format_rate(0.5625), format_rate(math.nan)
    ('56\xa0%', 'undefined')
    """
    return absent if rate is None or math.isnan(rate) else f"{_rounded(100 * rate, 0)}{_SPACE}%"


def format_p(p_value: float | None) -> str:
    """A p-value with three decimals, "< 0.001" below that, or "no test".

    >>> format_p(0.0312), format_p(1e-5), format_p(None)
    ('0.031', '< 0.001', 'no test')
    """
    if p_value is None or math.isnan(p_value):
        return NO_TEST
    return f"< {_SMALLEST_P:g}" if p_value < _SMALLEST_P else f"{p_value:.3f}"


def state_p(p_value: float, *, adjusted: bool = False) -> str:
    """A p-value as a statement; "" without a test.

    >>> state_p(0.0312), state_p(1e-5, adjusted=True)
    ('p = 0.031', 'adjusted p < 0.001')
    """
    if math.isnan(p_value):
        return ""
    text = format_p(p_value)
    return f"{'adjusted ' * adjusted}p {text if text.startswith('<') else f'= {text}'}"


def format_given(
    value: float | None,
    low: float = math.nan,
    high: float = math.nan,
    *,
    n: float | None = None,
    absent: str = NOT_KNOWN,
) -> str:
    """A given number unchanged if it has few digits, else as :func:`format_number` writes it.

    ``low`` and ``high`` are the interval of the number that it is compared with.

    >>> format_given(33.33), format_given(0.5), format_given(100 / 3, n=12), format_given(None)
    ('33.33', '0.5', '33', 'not known')
    """
    if value is None or math.isnan(value):
        return absent
    if math.isfinite(value) and abs(round(value, _EXACT_DECIMALS) - value) < _ROUNDING:
        return typeset(value + 0.0, f",.{_EXACT_DECIMALS}f").rstrip("0").rstrip(".")
    return format_number(value, low, high, n=n)


def format_percent(share: float) -> str:
    """A chosen share, such as a confidence, with all its digits.

    >>> format_percent(0.95), format_percent(0.125)
    ('95 %', '12.5 %')
    """
    return f"{100 * share:g} %"


def format_points(difference: float, low: float = math.nan, high: float = math.nan, *, unit: str = " points") -> str:
    """A difference of shares in whole points with its interval, each with a sign.

    >>> format_points(-0.083, -0.263, 0.0954), format_points(0.4)
    ('−8 points [−26, +10]', '+40 points')
    """
    points = [typeset(100 * number, "+.0f") for number in (difference, low, high)]
    return f"{points[0]}{unit}" + ("" if math.isnan(low) else f" [{points[1]}, {points[2]}]")


def format_count(n: int, noun: str) -> str:
    """A number of things.

    >>> format_count(1, "picture"), format_count(1200, "picture")
    ('1 picture', '1,200 pictures')
    """
    return f"{n:,} {noun}{'s' * (n != 1)}"


def limit_list(items: Sequence[str], limit: int) -> list[str]:
    """The first texts, and last the number of others.

    >>> limit_list(["a", "b", "c", "d"], 2), limit_list(["a", "b"], 2)
    (['a', 'b', 'and 2 more'], ['a', 'b'])
    """
    return [*items[:limit], *[f"and {len(items) - limit:,} more"] * (len(items) > limit)]


def format_list(items: Sequence[str], between: str = ", ", last: str = "", limit: int = 3) -> str:
    """The first texts, and the number of others; ``last`` stands before the last of a whole list.

    >>> format_list(["a", "b", "c", "d"]), format_list(["a", "b", "c"], last=" and ")
    ('a, b, c and 1 more', 'a, b and c')
    >>> format_list(["a", "b", "c"], "; ", limit=2)
    'a; b; and 1 more'
    """
    *firsts, final = limit_list(items, limit) or [""]
    if len(items) > limit:
        last = " " if between == ", " else between
    return (last or between).join((between.join(firsts), final)) if firsts else final


def format_counts(counts: Mapping[str, int], total: int = 0, limit: int = 3) -> str:
    """Names with their numbers, the most frequent first; one that has the whole ``total`` stands without it.

    >>> format_counts({"sdxl": 2, "sd15": 6}, 8), format_counts({"sd15": 8}, 8), format_counts({"sd15": 8})
    ('sd15 (6), sdxl (2)', 'sd15', 'sd15 (8)')
    """
    by_count = sorted(counts.items(), key=lambda pair: -pair[1])
    return format_list([name if n == total else f"{name} ({n:,})" for name, n in by_count], limit=limit)


def shorten(text: str, limit: int = 120) -> str:
    """A text without what exceeds a number of characters.

    >>> shorten("a nurse", 20), shorten("a nurse at work", 7)
    ('a nurse', 'a nurse…')
    """
    return text if len(text) <= limit else f"{text[:limit]}…"


def _half_width(value: float, low: float, high: float, n: float | None) -> float:
    if math.isfinite(low) and math.isfinite(high) and high > low:
        return (high - low) / 2
    one_sided = [abs(end - value) for end in (low, high) if math.isfinite(end) and end != value]
    if one_sided and not (math.isfinite(low) and math.isfinite(high)):
        return one_sided[0]
    scale = 10.0 ** math.ceil(math.log10(abs(value))) if value else 1.0
    return scale / math.sqrt(n if n is not None and n >= 1 else _USUAL_N)


def _decimals(half_width: float) -> int:
    return max(0, 1 - math.floor(math.log10(half_width)))


def _rounded(value: float, decimals: int) -> str:
    if decimals > _MOST_DECIMALS:
        return typeset(value, ".1e") if value else "0"
    return typeset(round(value, decimals) + 0.0, f",.{decimals}f")  # + 0.0: no negative zero
