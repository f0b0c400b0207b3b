"""How clients share what there is: turns, threads, and the processor time that each may take."""
