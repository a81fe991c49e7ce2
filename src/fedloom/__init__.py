"""fedloom: federated spatio-temporal and causal learning, from raw data to a paper's tables.

Tensor names end in a suffix that spells their axes, a number where an axis has that length. Where a letter has two
meanings, a module uses one of them.

====  =============================================================
A     features of a step's context; actions
B     samples in a minibatch (windows, sequences)
C     clients of the federation (one sensor, hospital, dataset ...)
D     hidden width
d     width of an embedding from which weights are made
E     directed edges between clients
F     features of one reading
G     gates of a recurrent cell; groups of samples
H     steps of the horizon that a forecast must give; attention heads
I     prototypes of a codebook; sequences at a step, where rolled out
K     windows of a core-set; blocks of a bootstrap; entries of a bank
L     steps of a padded sequence or of a series' window
M     draws of a mechanism; metrics of a reconstruction
N     nodes inside one model; sequences of a log; copies of a layer
n     patches of a window
O     outputs of a layer
P     plans of actions; policies; points at which a simulation is run
R     senders that one client hears; rows, or replicates, drawn
S     steps of a whole axis; sequences picked; supports of a graph
T     steps of history that a forecast may read; steps of a test part
U     units that an effect is an effect on
V     points of a validation part
W     windows; steps of a plan
X     static features of a sequence
====  =============================================================

``x_CBTF`` is thus clients x batch x history x features.
"""
