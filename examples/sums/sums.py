"""Adds the numbers up to N, slowly: sums.py N PAUSE."""

import sys
import time

total = 0
for number in range(1, int(sys.argv[1]) + 1):
    total += number
    print("sum", total)
    time.sleep(float(sys.argv[2]))
