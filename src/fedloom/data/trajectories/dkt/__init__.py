"""DKT-Synth: a semi-synthetic world of learners in which the outcome of every action sequence is known.

Three layers. A simulator of students (``simulator``) gives a recurrent network something to learn; that network, once
trained (``training``), is frozen and *is* the world's outcome law (``oracle``); a confounded logging policy acts in
that world and leaves a log (``world``). Any other action sequence is answered by the same oracle (``counterfactual``).

Shapes: N units (students), L steps, J items (the actions), M draws of outcome noise, W steps of a window, P policies.
Steps are counted from 0 in code; files and settings that name a step say whether they count from 1.
"""
