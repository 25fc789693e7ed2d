"""The magic commands of IPython and Jupyter. They run in the kernel; only ``%load_ext scalene_trace`` imports them."""
