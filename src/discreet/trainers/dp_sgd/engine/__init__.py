"""Clipped sums of single units' gradients for about the price of an ordinary backward pass."""
