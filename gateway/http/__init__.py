"""What every route needs of HTTP: headers, bodies, deadlines, and errors as clients see them."""
