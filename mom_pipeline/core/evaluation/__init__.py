"""How good lists and components are."""
