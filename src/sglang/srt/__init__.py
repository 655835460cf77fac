"""Old addresses: users' scripts import from here; the code lives elsewhere. Nothing inside the package does."""
