"""Centralised: one model on all clients' data in one place, what federation is measured against."""

from __future__ import annotations

from fedloom.methods.local import Local


class Centralised(Local):
    """The client model trained on the union of all clients' samples, drawn with shares that grow as their roots."""

    name = "centralised"
    cite = "the control without borders, which FeDaL's reviewers ask for beside Table 1"
    family = "series"
    pools = True
