"""The HTML report: one file that holds a trace's figures by stack and time, and the page that shows them."""
