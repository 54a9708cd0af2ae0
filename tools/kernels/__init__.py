# SPDX-License-Identifier: MIT
"""The parts of tools/kernels.py."""
