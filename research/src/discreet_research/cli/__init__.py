"""Commands that the research package adds to `discreet`."""
