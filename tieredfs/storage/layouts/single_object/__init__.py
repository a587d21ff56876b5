"""``single-object``: the native layout, one immutable object a segment."""
