"""Charts: what they show (`charts`), as SVG for pages (`svg`), and as PNG for files (`png`)."""
