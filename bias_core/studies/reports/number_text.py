"""Numbers as text, for reports, the page and the command line: as many digits as the interval bears out.

A value and the ends of its interval have the decimals that show half the interval's width in two digits:
42 [24, 60], 0.42 [0.24, 0.60], 0.4213 [0.4168, 0.4258]. Without an interval, half the width is taken as s/√n,
with s the power of ten at or above the value: -51.664 from three pictures is -52, from a thousand -51.7.
"""

import math

NOT_KNOWN = "not known"
NOT_PUBLISHED = "not published"
NO_NULL = "no such value"
UNDEFINED = "undefined"
NO_INTERVAL = "no interval"
NO_TEST = "no test"
_USUAL_N = 1000  # three digits, where nothing says how many there were
_MOST_DECIMALS = 6
_EXACT_DECIMALS = 3  # a number with no more than these is as somebody gave it: 33.33, 0.885
_ROUNDING = 1e-9
_SMALLEST_P = 0.001


def format_number(value: float | None, low: float = math.nan, high: float = math.nan, *, n: float | None = None) -> str:
    """A value with the digits that its interval, else its n, bears out.

    >>> format_number(-51.664, n=3), format_number(0.4213, 0.24, 0.6), format_number(math.nan)
    ('-52', '0.42', 'undefined')
    """
    if value is None:
        return NOT_KNOWN
    value, low, high = float(value), float(low), float(high)
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return _rounded(value, _decimals(_half_width(value, low, high, n)))


def format_interval(low: float, high: float, *, value: float = math.nan, n: float | None = None) -> str:
    """Both ends in brackets, or that there are none; ``value`` and ``n`` matter where they coincide.

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
    """A value with its interval behind it.

    >>> format_estimate(41.96, 24.1, 60.2), format_estimate(-51.664, math.nan, math.nan, n=3)
    ('42 [24, 60]', '-52, no interval')
    """
    text, interval = format_number(value, low, high, n=n), format_interval(low, high, value=value, n=n)
    if math.isnan(value):
        return text
    return f"{text}, {interval}" if interval == NO_INTERVAL else f"{text} {interval}"


def format_p(p_value: float | None) -> str:
    """A p-value with three decimals, "< 0.001" below that, and words where there is none.

    >>> format_p(0.0312), format_p(1e-5), format_p(None)
    ('0.031', '< 0.001', 'no test')
    """
    if p_value is None or math.isnan(p_value):
        return NO_TEST
    return f"< {_SMALLEST_P:g}" if p_value < _SMALLEST_P else f"{p_value:.3f}"


def format_given(
    value: float | None,
    low: float = math.nan,
    high: float = math.nan,
    *,
    n: float | None = None,
    absent: str = NOT_KNOWN,
) -> str:
    """A number as somebody gave it where it has few digits, else as :func:`format_number` has it.

    ``low`` and ``high`` are of what it is compared with.

    >>> format_given(33.33), format_given(0.5), format_given(100 / 3, n=12), format_given(None)
    ('33.33', '0.5', '33', 'not known')
    """
    if value is None or math.isnan(value):
        return absent
    if math.isfinite(value) and abs(round(value, _EXACT_DECIMALS) - value) < _ROUNDING:
        return f"{value + 0.0:,.{_EXACT_DECIMALS}f}".rstrip("0").rstrip(".")
    return format_number(value, low, high, n=n)


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
        return f"{value:.1e}" if value else "0"
    return f"{round(value, decimals) + 0.0:,.{decimals}f}"  # + 0.0: no negative zero
