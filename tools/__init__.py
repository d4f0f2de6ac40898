"""Measuring, checking, converting and training tools; never installed, imported by nobody."""
