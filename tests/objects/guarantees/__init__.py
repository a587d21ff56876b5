"""The guarantees of every backend, each of them one small function."""

# In the order of the page.
from objects.guarantees import reading as _reading  # isort: skip
from objects.guarantees import listing as _listing  # isort: skip
from objects.guarantees import writing as _writing  # isort: skip
from objects.guarantees import failing as _failing  # isort: skip
from objects.guarantees import sharing as _sharing  # isort: skip
from objects.guarantees.model import GUARANTEES, Guarantee, Outcome

__all__ = ["GUARANTEES", "Guarantee", "Outcome"]

del _reading, _listing, _writing, _failing, _sharing
