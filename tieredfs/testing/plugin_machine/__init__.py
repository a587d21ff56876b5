"""Any calls of a storage in any order, with faults, against a model of what it holds.

Two handles, each a storage of its own over one store, take turns, as two processes
would. After every step a third one, that is new, has to list what the model holds, and
to read it back to the byte, and one of the two has to list it. So the promises of
``Promise`` are asked; examples do not reach these:

- a copy is seen whole or not at all, also while it is made and wherever it died;
- what was copied stays, whatever else is copied or deleted, until it is deleted itself;
- a handle sees what another one has copied or deleted, and is never out of date;
- an error of the store is not taken for an answer, and a call repeated after it works;
- what failed calls left is found, is removed, and hides nothing.

A failure is printed as the shortest sequence of steps that hypothesis has found. The
steps are methods: those that write are in ``copying``, ``deleting`` and ``meanwhile``,
those that read in ``listing`` and ``fetching``, and ``restart`` is in ``machine``. A
new step is a method there. No step appends, replaces, surveys, streams or asks for
stored sizes: only the rules do.
"""
