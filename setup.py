"""The one thing pyproject.toml cannot say: the compiled kernel, or none at all."""

import os

from setuptools import Extension, setup

# The wheel for every machine without one of its own is asked for by name. A build that
# merely fails gives a wheel of this machine that decodes in Python.
if os.environ.get("TIEREDFS_BUILD") == "python":
    setup()
else:
    kernel = Extension(
        "tieredfs.format.kernel._kernel",
        ["tieredfs/format/kernel/_kernel.pyx"],
        depends=[
            "tieredfs/format/kernel/_crc32c.h",
            "tieredfs/format/kernel/_chunk.pxi",
            "tieredfs/format/kernel/_fill.pxi",
            "tieredfs/format/kernel/_groups.pxi",
            "tieredfs/format/kernel/_lines.pxi",
            "tieredfs/format/kernel/_packed.pxi",
            "tieredfs/format/kernel/_ranks.pxi",
            "tieredfs/format/kernel/_record.pxi",
            "tieredfs/format/kernel/_scan.pxi",
            "tieredfs/format/kernel/_shared.pxi",
            "tieredfs/format/kernel/_write.pxi",
        ],
        define_macros=[("Py_LIMITED_API", "0x030B0000")],
        py_limited_api=True,
        optional=True,
    )
    setup(ext_modules=[kernel], options={"bdist_wheel": {"py_limited_api": "cp311"}})
