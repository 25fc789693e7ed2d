"""The HTML report: one file with a trace's figures by stack and time, and the page that shows them."""
