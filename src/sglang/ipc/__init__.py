"""The vocabulary of the house: typed records that cross process borders, and the sockets that carry them."""
