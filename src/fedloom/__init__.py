"""fedloom: federated spatio-temporal and causal learning, from raw data to a paper's tables.

Tensor names end in a suffix that spells their axes:

====  =============================================================
C     clients of the federation (one sensor, hospital, dataset ...)
B     samples in a minibatch (windows, trajectories)
T     steps of history that a forecast may read
H     steps of the horizon that it must give
N     nodes inside one model (centralised graph methods)
F     features of one reading
D     hidden width
I     prototypes of a codebook
E     directed edges between clients
R     senders that one client hears
====  =============================================================

``x_CBTF`` is thus clients x batch x history x features.
"""
