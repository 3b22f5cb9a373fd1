"""The method: pure numpy and scipy, arrays in, frozen dataclasses out."""
