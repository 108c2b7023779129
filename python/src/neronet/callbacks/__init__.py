"""Callbacks that report metrics of training programs.

``neronet.callbacks.lightning``, ``.keras`` and ``.transformers`` each need their library and
are imported by themselves: nothing here imports a library that is not used.
"""
