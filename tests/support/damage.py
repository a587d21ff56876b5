"""What may become of bytes that were stored."""

import hypothesis.strategies as st

__all__ = ["damaged", "flipped"]

_FLIPS = st.integers(1, 255)


@st.composite
def damaged(draw: st.DrawFn, data: bytes, start: int = 0) -> bytes:
    """Draw bytes of which some are flipped, lost, zeroed, repeated or put in.

    Args:
        draw: Hypothesis's.
        data: The bytes as they were.
        start: Those before this position stay.
    """
    out = bytearray(data)
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 4]))):
        at = draw(st.integers(start, max(len(out) - 1, start)))
        end = min(len(out), at + draw(st.integers(1, 40) | st.integers(1, 100_000)))
        match draw(st.sampled_from(["flip", "lose", "cut", "zero", "repeat", "put"])):
            case "flip":
                out[at : at + 1] = bytes(b ^ draw(_FLIPS) for b in out[at : at + 1])
            case "lose":
                del out[at:end]
            case "cut":
                del out[at:]
            case "zero":
                out[at:end] = bytes(end - at)
            case "repeat":
                to = draw(st.integers(start, len(out)))
                out[to:to] = out[at:end]
            case _:
                out[at:at] = draw(st.binary(max_size=40))
    return bytes(out)


def flipped(data: bytes, position: int, bits: int = 1) -> bytes:
    """Return the bytes with some bits of one inverted."""
    out = bytearray(data)
    out[position] ^= bits
    return bytes(out)
