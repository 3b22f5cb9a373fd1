"""Products, eigenpairs and inverses at the sizes of this method."""
