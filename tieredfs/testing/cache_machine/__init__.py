"""Any calls of a cache of indexes in any order, against a model of its directory.

Two handles on one directory take turns, as two processes would, and a third one over
another store, whose segments have the same names. After every step the directory has to
hold exactly the entries of the model. So these are proved:

- what is returned is to the byte what the segment's own store has, whatever was done to
  the files, and stays so while it is held;
- an entry that is valid is not fetched again, after a restart either; any other one is
  fetched in one operation, by one of concurrent callers;
- the bytes on disk keep to their limit, which is that of all processes;
- no more is evicted than has to be, and what was used long ago first;
- a segment is described once, and what was described of it is lost with its entry;
- an error of the store is raised, and nothing of it is kept; one of the disk is not;
- a caller waits no longer than it wants to, and a closed cache does nothing;
- what is removed in the midst of a call is gone after it;
- a crash leaves nothing that the next process does not remove, and what other programs
  and running processes have written stays.

A failure is printed as the shortest sequence of steps that hypothesis has found. The
steps are methods: those of readers are in ``reading``, those that change what is kept
in ``keeping``, and what happens to the directory and in the stores in ``damaging``,
``failing`` and ``replacing``. Those of several threads are in ``crowding``,
``interrupting`` and ``waiting``, that of views in ``viewing``, and that of descriptions
in ``describing``. A new step is a method there.
"""
