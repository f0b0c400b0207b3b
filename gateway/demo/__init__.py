"""What `callgate demo` shows: four toolsets of realistic tools, called in every mode."""
