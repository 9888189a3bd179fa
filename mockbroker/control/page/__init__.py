"""The live page: the HTML that the server sends first, its files, and the shared document from which it is updated."""
