"""The page for people at `/dashboard`: who may ask, who may see what, the figures of each second, and the page."""
