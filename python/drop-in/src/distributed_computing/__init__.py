"""The interface of the library DistributedComputing, served by Neronet.

Programs for it run unchanged: see :mod:`distributed_computing.api`.
"""
