"""What requests and jobs cost, by the labels that the program gave them."""
