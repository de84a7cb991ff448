"""An example of a package that declares a part for discreet."""
