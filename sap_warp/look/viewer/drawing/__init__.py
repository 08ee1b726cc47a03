"""Drawing of the page: bodies, contacts, joints and signals."""
