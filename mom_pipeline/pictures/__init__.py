"""Charts: what they show (`charts`), and as SVG (`svg`)."""
