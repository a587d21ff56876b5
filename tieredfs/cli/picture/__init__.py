"""Pictures of topics: as text for a terminal, and as a page of HTML.

``blocks``, ``scale``, ``findings`` and ``units`` decide what is shown where; ``text``
draws it with characters, ``chart`` and ``growth`` as SVG, which ``page`` puts together.
"""
