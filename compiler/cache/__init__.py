"""The cache: grammars from memory, from the store, or compiled; what is stored is sealed."""
