"""From addresses to images and from images to function names."""
