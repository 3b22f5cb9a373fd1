"""The explorer: pages about people, items and components, on top of the answers over HTTP."""
