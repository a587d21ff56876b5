"""Any calls of an object store in any order, against a dict of what it holds.

Two handles, each with connections of its own, take turns, as two processes would. After
every step a third one, that is new, has to list exactly the objects of the model, and
to read each to the byte. So these are proved:

- what was put stays, whole, until it is replaced or deleted, whatever else is written;
- a read is exact, and a listing is complete, sorted and never stale, for each handle;
- of several creates of one key exactly one wins, and none where the object exists;
- a call that is refused says why by its error, and changes nothing.

What a store cannot do by its capabilities it has to refuse. A store with folders, such
as a disk, may refuse a key that is also the name of a folder. One that is read only is
asked about the objects that it is opened with.

A failure is printed as the shortest sequence of steps that hypothesis has found. The
steps are methods: those of writers are in ``putting`` and ``removing``, those of
readers in ``reading``, and calls that are refused in ``refusing``. A new step is a
method there.
"""
